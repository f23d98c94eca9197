// The small pieces that every page is made of.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { State } from "../api/types";
import type { ApiError } from "../api/http";
import { clock, engineNow, relative } from "../model/time";
import { useWords } from "../words";
import { visible } from "./payload";

/** A number that grows each second: what counts down or up is drawn anew. */
export function useTick(ms = 1_000): number {
  const [tick, set] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => !document.hidden && set((old) => old + 1), ms);
    return () => clearInterval(timer);
  }, [ms]);
  return tick;
}

export function useMedia(query: string): boolean {
  const [matches, set] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const media = matchMedia(query);
    const seen = () => set(media.matches);
    seen();
    media.addEventListener("change", seen);
    return () => media.removeEventListener("change", seen);
  }, [query]);
  return matches;
}

export const useNarrow = () => useMedia("(max-width: 720px)");

/** Brings the chosen one of a row of links into sight where the row is wider than the screen. */
export function inView(row: HTMLElement | null) {
  const chosen = row?.querySelector<HTMLElement>("[aria-current]");
  if (row && chosen) row.scrollLeft = chosen.offsetLeft - row.offsetLeft - (row.clientWidth - chosen.clientWidth) / 2;
}

/**
 * Ids begin with their time, so jobs of one minute differ only at the end: the command takes these
 * characters.
 */
export const idTail = (id: string) => id.slice(-8);
/** Enough of an id to see that it is not another one. */
export const shortId = (id: string) => `${id.slice(0, 8)}…${idTail(id)}`;

export const count = (value: number) => Math.round(value).toLocaleString("en");

/** `1.2 MB`: in thousands, as disks and memory are sold. */
export function bytes(value: number): string {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  const step = Math.min(units.length - 1, value < 1_000 ? 0 : Math.floor(Math.log10(value) / 3));
  const scaled = value / 1_000 ** step;
  return `${step && scaled < 100 ? trim(scaled.toFixed(1)) : count(scaled)} ${units[step]}`;
}

/** `12,345` as `12.3k` where room is short. */
export function short(value: number): string {
  if (value < 10_000) return count(value);
  if (value < 999_500) return `${trim((value / 1_000).toFixed(value < 99_950 ? 1 : 0))}k`;
  return `${trim((value / 1e6).toFixed(value < 99.95e6 ? 1 : 0))}M`;
}
const trim = (text: string) => text.replace(/\.0$/, "");

export function StateTag({ state }: { state: State }) {
  const words = useWords();
  return (
    <span class={`state s-${state}`} title={words.stateMeans[state]}>
      {words.state[state]}
    </span>
  );
}

/** An instant, counted from now; the exact one on hover. */
export function When({ at, overdue }: { at: string | undefined; overdue?: boolean }) {
  useTick();
  const words = useWords();
  if (!at) return null;
  const late = overdue && Date.parse(at) < engineNow() - 5_000;
  return (
    <time dateTime={at} title={clock(at)} class={late ? "bad-text" : undefined}>
      {relative(at, words)}
    </time>
  );
}

/** An error of the server with its remedy. */
export const errorText = (error: unknown) => [(error as Error).message, (error as ApiError).hint].filter(Boolean).map((text) => visible(text!)).join("; ");

export function Failure({ error, again }: { error: ApiError; again?: () => void }) {
  const words = useWords();
  const text = error.code === "forbidden" ? words.auth.forbidden : words.error.title;
  return (
    <div class="note bad" role="alert">
      <strong>{text}.</strong> {error.message}
      {error.hint ? `; ${error.hint}` : ""}
      {error.said ? <span class="said">{words.error.said} <code>{visible(error.said)}</code></span> : null}
      {error.requestId ? <span class="dim"> {words.error.request} {error.requestId}</span> : null}
      {again ? <button onClick={again}>{words.error.again}</button> : null}
    </div>
  );
}

interface PanelProps {
  title: ComponentChildren;
  hint?: string | undefined;
  side?: ComponentChildren;
  children: ComponentChildren;
  class?: string;
}

export function Panel({ title, hint, side, children, class: extra = "" }: PanelProps) {
  return (
    <section class={`panel ${extra}`}>
      <header>
        <h2>{title}</h2>
        {hint ? <span class="dim hint" title={hint}>{hint}</span> : null}
        {side ? <span class="side">{side}</span> : null}
      </header>
      {children}
    </section>
  );
}

interface TabsProps<T extends string> {
  label: string;
  of: readonly T[];
  name: (value: T) => string;
  value: T;
  set: (value: T) => void;
}

export function Tabs<T extends string>({ label, of, name, value, set }: TabsProps<T>) {
  return (
    <span class="tabs" role="group" aria-label={label}>
      {of.map((one) => (
        <button key={one} aria-pressed={one === value} onClick={() => set(one)}>
          {name(one)}
        </button>
      ))}
    </span>
  );
}
