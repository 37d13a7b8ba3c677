/** The icons, each a single SVG path. */

const PATHS = {
  pools: "M4 7h16M4 12h10M4 17h6",
  holds: "M6 4h12M6 20h12M8 4c0 5 8 6 8 16M16 4c0 5-8 6-8 16",
  journal: "M5 4h11l3 3v13H5zM9 10h6M9 14h6",
  claims: "M12 3l7 3v5c0 5-3 8-7 10-4-2-7-5-7-10V6z",
  items: "M4 8l8-4 8 4v8l-8 4-8-4zM4 8l8 4 8-4M12 12v8",
  faces: "M4 4h7v7H4zM13 4h7v7h-7zM4 13h7v7H4zM13 13h7v7h-7z",
  sagas: "M6 5a2 2 0 100 4 2 2 0 000-4M18 15a2 2 0 100 4 2 2 0 000-4M8 7h5a3 3 0 013 3v5",
  health: "M3 12h4l3-7 4 14 3-7h4",
  webhooks: "M4 12h11M11 8l4 4-4 4M19 5v14",
  keys: "M8 8a4 4 0 100 8 4 4 0 000-8M12 12h9M18 12v4M21 12v3",
  more: "M5 11.4a.6.6 0 100 1.2.6.6 0 000-1.2M12 11.4a.6.6 0 100 1.2.6.6 0 000-1.2M19 11.4a.6.6 0 100 1.2.6.6 0 000-1.2",
  keyboard: "M3 7h18v10H3zM7 11h.01M11 11h.01M15 11h.01M8 14h8",
  signOut: "M14 4h5v16h-5M4 12h10M10 8l4 4-4 4",
  sun: "M12 8a4 4 0 100 8 4 4 0 000-8M12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.5 1.5M17.5 17.5L19 19M5 19l1.5-1.5M17.5 6.5L19 5",
  moon: "M20 14A8 8 0 1110 4a6.5 6.5 0 0010 10z",
  auto: "M12 3a9 9 0 100 18 9 9 0 000-18M12 3v18",
  search: "M11 5a6 6 0 100 12 6 6 0 000-12M16 16l4 4",
  pause: "M8 5v14M16 5v14",
  play: "M7 5l12 7-12 7z",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" width="18" height="18" aria-hidden="true">
      <path
        d={PATHS[name]}
        fill="none"
        stroke="currentColor"
        stroke-width="1.7"
        stroke-linecap="round"
        stroke-linejoin="round"
      />
    </svg>
  );
}
