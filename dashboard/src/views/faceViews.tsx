/** Which view shows what a face has, by the address. One that keeps something in its address begins anew with another. */
import type { VNode } from "preact";
import { AccountView } from "./Account";
import { CalendarView } from "./Calendar";
import { Faces } from "./Faces";
import { ResourcesView } from "./Resources";
import { SectionView } from "./Section";
import { WindowsView } from "./Windows";

export function faceView(view: string, id: string, asked: string): VNode | null {
  switch (view) {
    case "faces":
      return <Faces />;
    case "account":
      return <AccountView key={id} id={id} />;
    case "calendar":
      return <CalendarView key={`${id} ${asked}`} id={id} />;
    case "budgets":
    case "rates":
      return <WindowsView key={`${view} ${id} ${asked}`} face={view} id={id} />;
    case "resources":
      return <ResourcesView key={id} id={id} />;
    case "section":
      return <SectionView key={id} id={id} />;
    default:
      return null;
  }
}
