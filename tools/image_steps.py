"""Run the steps of the Dockerfile on this machine, without Docker: each stage in a folder and a virtual environment of its own.

`make image-check`. It checks that the locks install with their hashes and suffice, that nothing but the lock's packages is in
the final stage, and that the health check tells a server that answers from one that does not, with and without TLS. What only
Docker can do (the base image, the user, the file system) is not checked here; tests/unit/tools/test_image.py reads it as text.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from ipaddress import ip_address
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDERS: Final = ("src", "wheels", "locks", "data")
"""The folders of the image that steps name; each is below the stage's folder here."""


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile, with continued lines joined."""
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


class Stage:
    """One stage of the build."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.at = folder, folder
        self.variables: dict[str, str] = {}
        for name in FOLDERS:
            (folder / name).mkdir(parents=True)
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)

    def here(self, text: str) -> str:
        """A text with the image's paths replaced by this stage's."""
        return re.sub(rf"(?<![\w./])/({'|'.join(FOLDERS)})\b", rf"{self.folder}/\1", text)

    def environment(self, more: dict[str, str]) -> dict[str, str]:
        """The environment of a step or of the program."""
        own = {
            name: value for name, value in os.environ.items() if not name.startswith(("HOLDKIT", "PYTHON", "VIRTUAL"))
        }
        return own | self.variables | more | {"PATH": f"{self.folder / 'venv/bin'}:{os.environ['PATH']}"}

    def run(self, command: str) -> None:
        """One RUN step."""
        print(f"  RUN {command}", flush=True)
        subprocess.run(
            ["sh", "-ec", self.here(command)], cwd=self.at, env=self.environment({"PIP_QUIET": "1"}), check=True
        )

    def copy(self, words: list[str], stages: dict[str, Stage]) -> None:
        """One COPY step, from the project or from another stage."""
        source = ROOT
        if words[0].startswith("--from="):
            stage = stages[words.pop(0).removeprefix("--from=")]
            source, words[:-1] = stage.folder, [word.lstrip("/") for word in words[:-1]]
        target = Path(self.here(words[-1])) if words[-1].startswith("/") else self.at / words[-1]
        for word in words[:-1]:
            if (source / word).is_dir():
                shutil.copytree(source / word, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source / word, target)


def build(folder: Path) -> tuple[Stage, dict[str, str]]:
    """Run every step; returns the last stage, and its program and health check."""
    stages: dict[str, Stage] = {}
    last, found = None, {}
    for word, rest in instructions((ROOT / "Dockerfile").read_text("utf-8")):
        if word == "FROM":
            name = rest.partition(" AS ")[2] or f"stage{len(stages)}"
            print(f"FROM {rest}", flush=True)
            last = stages[name] = Stage(folder / name)
            continue
        assert last is not None, "a Dockerfile begins with FROM"
        if word == "RUN" and not rest.startswith("useradd"):
            last.run(rest)
        elif word == "COPY":
            last.copy(rest.split(), stages)
        elif word == "WORKDIR":
            last.at = Path(last.here(rest))
        elif word == "ENV":
            name, _, value = rest.partition("=")
            last.variables[name] = (
                last.here(value) if "://" not in value else value.replace("/data", str(last.folder / "data"))
            )
        elif word in ("ENTRYPOINT", "CMD", "HEALTHCHECK"):
            found[word] = rest
    assert last is not None
    return last, found


def locked() -> set[str]:
    """The names in the runtime lock that apply to this interpreter."""
    from packaging.markers import Marker

    lines = (ROOT / "requirements-runtime.lock").read_text("utf-8").replace("\\\n", " ").splitlines()
    names = set()
    for line in lines:
        name, _, marker = line.partition("--hash")[0].partition(";")
        if "==" in name and (not marker.strip() or Marker(marker.strip()).evaluate()):
            names.add(name.partition("==")[0].strip().lower().replace("_", "-"))
    return names


def check_packages(stage: Stage) -> None:
    """The final stage has what the lock names, Holdkit and pip, and nothing else."""
    listing = subprocess.run(
        ["pip", "list", "--format", "json"], env=stage.environment({}), capture_output=True, check=True
    )
    installed = {one["name"].lower().replace("_", "-") for one in json.loads(listing.stdout)} - {"pip", "setuptools"}
    wanted = locked() | {"holdkit"}
    if installed != wanted:
        sys.exit(f"image: installed but not locked {installed - wanted}, locked but not installed {wanted - installed}")
    print(f"  {len(installed)} packages, as locked", flush=True)


def check_health(stage: Stage, found: dict[str, str], more: dict[str, str]) -> None:
    """The health check fails before the server runs, and succeeds while it does."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = stage.environment({"HOLDKIT_SERVER_PORT": str(port), "HOLDKIT_SERVER_HOST": "127.0.0.1", **more})
    health = found["HEALTHCHECK"].partition("CMD ")[2]
    program = [*json.loads(found["ENTRYPOINT"]), *json.loads(found["CMD"])]

    def healthy() -> bool:
        done = subprocess.run(["sh", "-c", health], cwd=stage.at, env=environment, capture_output=True, check=False)
        return done.returncode == 0

    if healthy():
        sys.exit("image: the health check succeeds without a server")
    # The program is started by its full path: Popen looks in this process's PATH.
    program[0] = str(stage.folder / "venv/bin" / program[0])
    with subprocess.Popen(program, cwd=stage.at, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            said = server.stdout.readline()
            if not healthy():
                sys.exit(f"image: the health check fails beside a server that said {said!r}")
            print(f"  healthy: {said.strip()}", flush=True)
        finally:
            server.terminate()
    if server.returncode != 0:
        sys.exit(f"image: the server ended with {server.returncode}")


def certificate(folder: Path) -> dict[str, str]:
    """A certificate for a name that is not this machine's, and the settings that name it."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "holds.example")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("192.0.2.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    (folder / "tls.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    (folder / "tls.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
    return {
        "HOLDKIT_SERVER_CERTIFICATE": str(folder / "tls.pem"),
        "HOLDKIT_SERVER_PRIVATE_KEY": str(folder / "tls.key"),
    }


def main() -> None:
    """Build, then check."""
    with tempfile.TemporaryDirectory(prefix="holdkit-image-") as made:
        stage, found = build(Path(made))
        check_packages(stage)
        for more in ({}, certificate(Path(made)), {"HOLDKIT_SERVER_UDS": f"{made}/socket"}):
            check_health(stage, found, more)
    print("the image's steps work")


if __name__ == "__main__":
    main()
