// Lines over time, drawn by uPlot, and bars of what falls due.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { theme } from "../app/settings";
import { useStore } from "../app/store";
import { type DueBar, axisTop } from "../model/history";
import { clock, hourMinute } from "../model/time";
import { useWords } from "../words";
import { count, short, useMedia } from "./small";

export interface Line {
  name: string;
  /** A colour by its name in the style sheet. */
  colour: string;
  values: (number | null)[];
  fill?: boolean;
}

interface Props {
  at: number[];
  lines: Line[];
  /** A value as text. */
  format(value: number): string;
  /** Lateness spans from microseconds to minutes: a logarithmic scale. */
  logarithmic?: boolean;
  label: string;
  empty: string;
}

const HEIGHT = 132;

export function Chart({ at, lines, format, logarithmic, label, empty }: Props) {
  const words = useWords();
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const data = useRef<uPlot.AlignedData>([[]]);
  const formatting = useRef(format);
  formatting.current = format;
  const appearance = `${useStore(theme)}${useMedia("(prefers-color-scheme: light)")}`;
  const nothing = lines.every((line) => line.values.every((value) => !value));
  const top = logarithmic ? axisTop(lines.map((line) => line.values)) : null;
  const drawn = (value: number | null) => (value && value > 0 ? Math.min(value, top ?? value) : null);
  data.current = [at, ...lines.map((line) => (logarithmic ? line.values.map(drawn) : line.values))];
  const above = top === null ? [] : at.flatMap((second, index) => {
    const most = Math.max(...lines.map((line) => line.values[index] ?? 0));
    return most > top ? [`${format(most)} (${hourMinute(new Date(second * 1_000))})`] : [];
  });
  const shown = useRef(lines);
  shown.current = lines;
  const names = lines.map((line) => line.name).join();

  useEffect(() => {
    const host = box.current;
    if (!host || nothing) return;
    const own = new uPlot(options(host, shown, logarithmic ?? false, formatting), data.current, host);
    plot.current = own;
    const watch = new ResizeObserver(() => own.setSize({ width: host.clientWidth, height: HEIGHT }));
    watch.observe(host);
    return () => {
      watch.disconnect();
      own.destroy();
      plot.current = null;
    };
  }, [names, appearance, nothing, logarithmic]);
  useEffect(() => plot.current?.setData(data.current), [at, lines]);

  const last = (line: Line) => [...line.values].reverse().find((value) => value !== null) ?? null;
  return (
    <figure class="chart" aria-label={label}>
      <figcaption>
        {lines.map((line) => {
          const value = last(line);
          return (
            <span key={line.name} class={`key c-${line.colour}`}>
              {line.name} <b>{value === null ? "–" : format(value)}</b>
            </span>
          );
        })}
        {above.length ? <span class="warn-text above">{words.charts.above(above.slice(0, 3).join(", "))}</span> : null}
      </figcaption>
      {nothing ? <p class="empty">{empty}</p> : <div ref={box} class="plot" />}
    </figure>
  );
}

function options(host: HTMLElement, shown: { current: Line[] }, logarithmic: boolean, format: { current: (value: number) => string }): uPlot.Options {
  const style = getComputedStyle(host);
  const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const axis = { stroke: colour("dim"), font: "11px system-ui, sans-serif", grid: { stroke: colour("line"), width: 1 }, ticks: { show: false } };
  return {
    width: host.clientWidth,
    height: HEIGHT,
    padding: [6, 14, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { size: 5 }, drag: { x: false, y: false } },
    scales: { x: { time: true }, y: logarithmic ? { distr: 3, range: decades } : { range: (_, __, max) => [0, Math.max(1, max * 1.08)] } },
    axes: [
      { ...axis, size: 22, space: 60, values: (_, ticks) => ticks.map((tick) => hourMinute(new Date(tick * 1_000))) },
      { ...axis, size: 58, space: 26, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : format.current(tick))), ...(logarithmic && { filter: wholeDecades, grid: { ...axis.grid, filter: wholeDecades } }) },
    ],
    series: [
      {},
      ...shown.current.map((line) => ({ label: line.name, stroke: colour(line.colour), width: 1.5, points: { show: false, filter: lonely, size: 4, fill: colour(line.colour) }, spanGaps: false, ...(line.fill && { fill: `${colour(line.colour)}22` }) })),
    ],
    hooks: { setCursor: [hover(shown, format)] },
  };
}

/** No line leads to a value with quiet steps on both sides: it is drawn as a point. */
function lonely(plot: uPlot, series: number): number[] {
  const values = plot.data[series] ?? [];
  const isThere = (index: number) => values[index] !== null && values[index] !== undefined;
  return [...Array(values.length).keys()].filter((index) => isThere(index) && !isThere(index - 1) && !isThere(index + 1));
}

const decades = (_: uPlot, min: number | null, max: number | null): [number, number] => {
  const low = Math.floor(Math.log10(Math.max(min ?? 0.1, 1e-3)));
  const high = Math.ceil(Math.log10(Math.max(max ?? 10, 1e-2)));
  return [10 ** low, 10 ** Math.max(high, low + 1)];
};
const wholeDecades = (_: uPlot, ticks: number[]) => ticks.map((tick) => (Number.isInteger(Math.round(Math.log10(tick) * 1e6) / 1e6) ? tick : null)) as number[];

/** Under the pointer the values of that minute are shown, as text. */
function hover(shown: { current: Line[] }, format: { current: (value: number) => string }) {
  return (plot: uPlot) => {
    const figure = plot.root.closest("figure");
    if (!figure) return;
    let shownAt = figure.querySelector<HTMLElement>(".values");
    if (!shownAt) {
      shownAt = document.createElement("div");
      shownAt.className = "values";
      figure.append(shownAt);
    }
    const index = plot.cursor.idx;
    shownAt.hidden = index === null || index === undefined;
    if (index === null || index === undefined) return;
    const at = plot.data[0][index];
    // As they are: what is drawn ends at the top of the axis.
    const values = shown.current.map((line) => [line.name, line.values[index]] as const);
    shownAt.textContent = [at === undefined ? "" : clock(at * 1_000), ...values.map(([name, value]) => `${name} ${value === null || value === undefined ? "–" : format.current(value)}`)].join("   ");
  };
}

interface BarsProps {
  bars: DueBar[];
  /** The text under a bar for its start. */
  mark(bar: DueBar, index: number): string;
  format(jobs: number): string;
  link?: (bar: DueBar) => string;
  label: string;
}

export function Bars({ bars, mark, format, link, label }: BarsProps) {
  const most = Math.max(1, ...bars.map((bar) => bar.jobs));
  return (
    <div class="bars" role="group" aria-label={label}>
      {bars.map((bar, index) => {
        const text = `${clock(bar.from)} – ${clock(bar.until)}: ${format(bar.jobs)}`;
        const inside = (
          <>
            <span class="many">{bar.jobs ? short(bar.jobs) : ""}</span>
            <span class="amount" style={{ height: `${bar.jobs ? Math.max(2, (bar.jobs / most) * 92) : 0}px` }} />
            <span class="mark">{mark(bar, index)}</span>
          </>
        );
        return link && bar.jobs ? (
          <a key={index} class="slot" title={text} href={link(bar)}>{inside}</a>
        ) : (
          <span key={index} class="slot" title={text}>{inside}</span>
        );
      })}
    </div>
  );
}

export const formatCount = (value: number) => (value < 10 && !Number.isInteger(value) ? value.toFixed(1) : count(value));
