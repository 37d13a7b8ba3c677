/** Which view shows what a face has, by the address. */
import type { VNode } from "preact";
import { Faces } from "./Faces";

export function faceView(view: string, _id: string): VNode | null {
  switch (view) {
    case "faces":
      return <Faces />;
    default:
      return null;
  }
}
