// What a schedule says, in one line; and its instants by the clock of its zone.
import type { Schedule } from "../api/types";

/** The patterns, spans and instants of a schedule as they were written. */
export function patternText({ schedule: of }: Schedule): string {
  const named = (form: string, texts: string[] = []) => texts.map((text) => `${form}${text}`);
  const parts = [...named("", of.cron), ...named("", of.cron_seconds), ...named("quartz ", of.quartz), ...named("every ", of.every), ...named("at ", of.at)];
  return parts.join(" + ");
}

/** The patterns of which no run comes. */
export const exceptText = ({ schedule: of }: Schedule) => [...(of.except ?? []), ...(of.except_seconds ?? []), ...(of.except_quartz ?? [])].join(" + ");

/**
 * An instant by the clock of a zone: `Mon 2026-11-30 09:00:00`. A zone that this browser does not
 * know is not converted.
 */
export function inZone(instant: string, zone: string): string {
  try {
    const format = new Intl.DateTimeFormat("en-CA", { timeZone: zone, hourCycle: "h23", weekday: "short", year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" });
    const part = Object.fromEntries(format.formatToParts(new Date(instant)).map(({ type, value }) => [type, value.replace(".", "")]));
    return `${part.weekday} ${part.year}-${part.month}-${part.day} ${part.hour}:${part.minute}:${part.second}`;
  } catch {
    return inUtc(instant);
  }
}

/** `2026-11-30T08:00:00Z`, without a fraction that is zero. */
export const inUtc = (instant: string) => instant.replace(/\.0+Z$/, "Z");

export type Standing = "on" | "paused" | "ended" | "dry" | "overdue";
/** How a schedule stands; the worst first. */
export const standing = ({ dry, ended, schedule, overdue_since }: Schedule): Standing => (ended ? "ended" : schedule.paused ? "paused" : dry ? "dry" : overdue_since ? "overdue" : "on");
