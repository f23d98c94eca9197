// Instants and spans for people. The engine's time decides: `skew` holds what this machine differs.
import type { Words } from "../words";

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

let skew = 0;

/** Learns the engine's time from an answer. */
export function learnNow(now: string | undefined) {
  const engine = now ? Date.parse(now) : NaN;
  if (!Number.isNaN(engine)) skew = engine - Date.now();
}

/** Engine time in milliseconds, as far as this page knows it. */
export const engineNow = () => Date.now() + skew;

/** A span in two units at most: `820 µs`, `4.2 s`, `3m 20s`, `2h 5m`, `12d`. */
export function span(ms: number): string {
  const value = Math.abs(ms);
  if (value < 1) return value === 0 ? "0 ms" : `${Math.round(value * 1_000)} µs`;
  if (value < 100) return `${digits(value)} ms`;
  if (value < SECOND) return `${Math.round(value)} ms`;
  if (value < MINUTE) return `${value < 10 * SECOND ? trim((value / SECOND).toFixed(1)) : Math.floor(value / SECOND)} s`;
  if (value < HOUR) return two(value, MINUTE, "m", SECOND, "s");
  if (value < DAY) return two(value, HOUR, "h", MINUTE, "m");
  if (value < 10 * DAY) return two(value, DAY, "d", HOUR, "h");
  return `${Math.floor(value / DAY).toLocaleString("en")}d`;
}

export const micros = (us: number) => span(us / 1_000);

function two(value: number, big: number, bigName: string, small: number, smallName: string): string {
  const whole = Math.floor(value / big);
  const rest = Math.floor((value % big) / small);
  return rest ? `${whole}${bigName} ${rest}${smallName}` : `${whole}${bigName}`;
}

const trim = (text: string) => text.replace(/\.0$/, "");
const digits = (value: number) => trim(value < 10 ? value.toFixed(1) : value.toFixed(0));

/** `in 5m`, `3s ago`, `now`. */
export function relative(instant: string, words: Words, now = engineNow()): string {
  const distance = Date.parse(instant) - now;
  if (Math.abs(distance) < SECOND) return words.time.now;
  return distance > 0 ? words.time.in(span(distance)) : words.time.ago(span(distance));
}

const two2 = (value: number) => String(value).padStart(2, "0");

/** Local time to the second, with the date unless it is today. */
export function clock(instant: string | number): string {
  const at = new Date(instant);
  if (Number.isNaN(at.getTime())) return String(instant);
  const time = `${two2(at.getHours())}:${two2(at.getMinutes())}:${two2(at.getSeconds())}`;
  return at.toDateString() === new Date(engineNow()).toDateString() ? time : `${day(at)} ${time}`;
}

export const day = (at: Date) => `${at.getFullYear()}-${two2(at.getMonth() + 1)}-${two2(at.getDate())}`;
export const hourMinute = (at: Date) => `${two2(at.getHours())}:${two2(at.getMinutes())}`;

const UNITS: Record<string, number> = { d: DAY, h: HOUR, m: MINUTE, s: SECOND, ms: 1, us: 0.001 };

/** Reads `90s`, `1h30m`, `1.5s`; null if it is none. */
export function readSpan(text: string): number | null {
  const parts = [...text.trim().matchAll(/(\d+(?:\.\d+)?)\s*(us|ms|d|h|m|s)/g)];
  if (!parts.length || parts.map((part) => part[0]).join("") !== text.trim().replaceAll(/(?<=[a-z]) +/g, "")) return null;
  return parts.reduce((sum, part) => sum + Number(part[1]) * UNITS[part[2]!]!, 0);
}

/** Reads `1h` (from now), `-30m` (ago), or an instant of local time; null if it is none. */
export function readInstant(text: string): string | null {
  const bare = text.trim();
  const back = bare.startsWith("-");
  const distance = readSpan(bare.replace(/^[-+]/, ""));
  if (distance !== null) return new Date(engineNow() + (back ? -distance : distance)).toISOString();
  if (bare === "now") return new Date(engineNow()).toISOString();
  if (!/^\d{4}-\d{2}-\d{2}/.test(bare)) return null;
  const at = new Date(bare.length === 10 ? `${bare}T00:00` : bare.replace(" ", "T"));
  return Number.isNaN(at.getTime()) ? null : at.toISOString();
}
