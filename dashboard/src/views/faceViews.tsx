/** Which view shows what a face has, by the address. */
import type { VNode } from "preact";
import { AccountView } from "./Account";
import { Faces } from "./Faces";

export function faceView(view: string, id: string): VNode | null {
  switch (view) {
    case "faces":
      return <Faces />;
    case "account":
      return <AccountView key={id} id={id} />;
    default:
      return null;
  }
}
