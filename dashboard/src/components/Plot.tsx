/** A plot over time, by uPlot: created once, updated with new data, and created again when the theme changes. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { compact, clock, moment } from "../format";
import { dark } from "../theme";

export interface Curve {
  label: string;
  /** A custom property of the style sheet. */
  colour: string;
  fill?: boolean;
  dashed?: boolean;
}

interface Props {
  label: string;
  curves: Curve[];
  /** Seconds, then one array of values per curve; null where nothing is known: the line has a gap there. */
  data: (number | null)[][];
  height?: number;
  stepped?: boolean;
  /** The text shown for a curve, if not its plotted value. */
  read?: (curve: number, index: number) => string;
}

export function Plot({ label, curves, data, height = 200, stepped = false, read }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const pointed = useSignal<number | null>(null);
  const isDark = dark.value;

  useEffect(() => {
    const target = box.current;
    if (!target) return;
    const made = new uPlot(
      options(target, curves, height, stepped, (at) => (pointed.value = at)),
      shaped(data),
      target,
    );
    plot.current = made;
    const watcher = new ResizeObserver(() => made.setSize({ width: target.clientWidth, height }));
    watcher.observe(target);
    return () => {
      watcher.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [isDark, curves.length, height]);

  useEffect(() => plot.current?.setData(shaped(data)), [data]);

  const last = (data[0]?.length ?? 0) - 1;
  const shown = Math.min(pointed.value ?? last, last);
  const time = data[0]?.[shown] ?? undefined;
  return (
    <figure class="plot" aria-label={label}>
      <figcaption class="legend">
        <time>{time === undefined ? "" : moment(new Date(time * 1_000).toISOString())}</time>
        {curves.map((curve, index) => (
          <span class="legend-item" key={curve.label}>
            <i style={{ background: `var(${curve.colour})` }} data-dashed={curve.dashed ? "" : undefined} />
            {curve.label} <b>{said(data[index + 1]?.[shown], () => read?.(index, shown))}</b>
          </span>
        ))}
      </figcaption>
      <div ref={box} class="plot-canvas" style={{ height: `${height}px` }} />
    </figure>
  );
}

const said = (value: number | null | undefined, read: () => string | undefined): string =>
  value === null || value === undefined ? "–" : (read() ?? compact(Math.round(value * 10) / 10));

const shaped = (data: (number | null)[][]): uPlot.AlignedData => data as unknown as uPlot.AlignedData;

function options(
  target: HTMLElement,
  curves: Curve[],
  height: number,
  stepped: boolean,
  point: (at: number | null) => void,
): uPlot.Options {
  const colour = resolver(target);
  const font = `11px ${getComputedStyle(target).fontFamily}`;
  const axis: uPlot.Axis = {
    stroke: colour("var(--muted)"),
    font,
    grid: { stroke: colour("var(--line)"), width: 1 },
    ticks: { show: false },
  };
  const paths = stepped ? uPlot.paths.stepped?.({ align: 1 }) : undefined;
  return {
    width: target.clientWidth,
    height,
    padding: [10, 26, 0, 0],
    legend: { show: false },
    cursor: { points: { size: 6 }, drag: { x: false, y: false }, y: false },
    scales: { y: { range: (_plot, _low, high) => [0, Math.max(1, high * 1.08)] } },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 26,
        space: 80,
        values: (_plot, splits, _axis, _space, step) => splits.map((at) => tick(at, step)),
      },
      {
        ...axis,
        size: 44,
        values: (_plot, splits) => splits.map((value) => compact(value)),
      },
    ],
    series: [
      {},
      ...curves.map((curve): uPlot.Series => {
        const series: uPlot.Series = {
          stroke: colour(`var(${curve.colour})`),
          width: curve.dashed ? 1 : 1.5,
          points: { show: false },
        };
        if (curve.fill) series.fill = colour(`color-mix(in srgb, var(${curve.colour}) 26%, var(--surface))`);
        if (curve.dashed) series.dash = [4, 4];
        if (paths) series.paths = paths;
        return series;
      }),
    ],
    hooks: { setCursor: [(plot) => point(plot.cursor.idx ?? null)] },
  };
}

/** The text of a mark on the time axis, whose marks are `step` seconds apart. */
function tick(at: number, step: number): string {
  const date = new Date(at * 1_000);
  if (step >= 86_400) return date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  const text = clock(date.toISOString());
  return step >= 60 ? text.slice(0, 5) : text;
}

/** A canvas cannot resolve CSS custom properties: read the computed colour of a temporary element. */
function resolver(target: HTMLElement): (css: string) => string {
  return (css) => {
    const probe = document.createElement("i");
    probe.style.color = css;
    target.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  };
}
