/** Builds into the package, and writes a manifest of hashes, so that a test can compare sources and build without npm. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig, type Plugin } from "vite";

const HERE = dirname(fileURLToPath(import.meta.url));
const OUT = join(HERE, "../src/holdkit/server/static");
const EXCLUDED = new Set(["node_modules", ".vite"]);
/** Generated, and only types: it changes with every document of the server, and never the build. */
const TYPES = "src/types.ts";

function files(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((found) => {
    if (EXCLUDED.has(found.name)) return [];
    const path = join(folder, found.name);
    return found.isDirectory() ? files(path) : [path];
  });
}

/** One hash over all files below a folder, by name and content. */
function digest(folder: string, excluded = ""): string {
  const hash = createHash("sha256");
  const names = files(folder).map((path) => relative(folder, path));
  for (const name of names.filter((one) => one !== excluded).sort()) {
    const content = createHash("sha256")
      .update(readFileSync(join(folder, name)))
      .digest("hex");
    hash.update(`${name} ${content}\n`);
  }
  return hash.digest("hex");
}

const manifest: Plugin = {
  name: "manifest",
  closeBundle() {
    const hashes = { sources: digest(HERE, TYPES), built: digest(OUT, "build.json") };
    writeFileSync(join(OUT, "build.json"), `${JSON.stringify(hashes, null, 2)}\n`);
  },
};

export default defineConfig({
  base: "./",
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
  build: { outDir: OUT, emptyOutDir: true, target: "es2022", assetsInlineLimit: 0, modulePreload: { polyfill: false } },
  plugins: [manifest],
});
