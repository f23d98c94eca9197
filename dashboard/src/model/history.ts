// History by minutes: several queues as one, and steps wide enough for the eye.
import type { DueBucket, Minute } from "../api/types";

export interface Series {
  /** Seconds since 1970, one per step, without holes. */
  at: number[];
  /** Per minute. */
  enqueued: number[];
  completed: number[];
  failed: number[];
  dead: number[];
  /** Milliseconds; null in quiet steps. */
  late50: (number | null)[];
  late99: (number | null)[];
  run50: (number | null)[];
  run99: (number | null)[];
}

/** The fewest steps that a chart shows. */
const STEPS_MIN = 10;

/**
 * The last `minutes` in steps of `step` minutes; counts are per minute, p99 the worst, p50 weighted
 * by claims. The step that is not over yet counts by its full minutes, and is left out while it has
 * none. A server whose first minute runs shows that minute. Where nothing is known of the time
 * before, the first step is the first with data.
 */
export function series(histories: (Minute[] | undefined)[], now: number, minutes: number, step: number): Series {
  const width = step * 60_000;
  const thisMinute = Math.floor(now / 60_000) * 60_000;
  // A server in its first minute has nothing else to show than that minute.
  const isNew = !histories.some((history) => history?.some((minute) => Date.parse(minute.minute) < thisMinute));
  const end = isNew ? thisMinute + 60_000 : thisMinute;
  const fullMinutes = Math.floor((now % width) / 60_000) + (isNew ? 1 : 0);
  const last = Math.floor(now / width) - (fullMinutes ? 0 : 1);
  const first = last - Math.ceil(minutes / step) + 1;
  const count = last - first + 1;
  const zeros = () => new Array<number>(count).fill(0);
  const sums = { enqueued: zeros(), completed: zeros(), failed: zeros(), dead: zeros() };
  const late = quantiles(count);
  const run = quantiles(count);
  let oldest = Infinity;
  for (const history of histories) {
    for (const minute of history ?? []) {
      const index = Math.floor(Date.parse(minute.minute) / width) - first;
      oldest = Math.min(oldest, index);
      if (index < 0 || index >= count || Date.parse(minute.minute) >= end) continue;
      const weight = index === count - 1 && fullMinutes ? fullMinutes : step;
      for (const name of ["enqueued", "completed", "failed", "dead"] as const) sums[name][index]! += minute[name] / weight;
      if (minute.lateness_us) late.add(index, minute.lateness_us.p50, minute.lateness_us.p99, minute.claimed);
      if (minute.run_time_us) run.add(index, minute.run_time_us.p50, minute.run_time_us.p99, minute.completed + minute.failed);
    }
  }
  const at = Array.from({ length: count }, (_, index) => ((first + index) * width) / 1_000);
  const all = { at, ...sums, late50: late.p50(), late99: late.p99, run50: run.p50(), run99: run.p99 };
  const skipped = Math.min(oldest, count - STEPS_MIN);
  if (skipped <= 0 || oldest === Infinity) return all;
  return Object.fromEntries(Object.entries(all).map(([name, values]) => [name, values.slice(skipped)])) as unknown as Series;
}

/** A value stands alone if it is that many times the next one below it. */
const ALONE = 1_000;
/** At most that share of the steps may be left above the axis, and one in any case. */
const ABOVE_SHARE = 0.05;

/**
 * Where a logarithmic axis ends, so that a few false values do not press all others flat; null
 * where it ends at the highest.
 */
export function axisTop(lines: (number | null)[][]): number | null {
  const steps = (lines[0] ?? []).map((_, index) => Math.max(...lines.map((line) => line[index] ?? 0)));
  const falling = steps.filter((value) => value > 0).sort((a, b) => b - a);
  const most = Math.max(1, Math.floor(falling.length * ABOVE_SHARE));
  for (let above = Math.min(most, falling.length - 2); above > 0; above -= 1) {
    const below = falling[above]!;
    if (falling[above - 1]! > below * ALONE) return 10 ** Math.ceil(Math.log10(below));
  }
  return null;
}

function quantiles(count: number) {
  const weighted = new Array<number>(count).fill(0);
  const weights = new Array<number>(count).fill(0);
  const p99 = new Array<number | null>(count).fill(null);
  return {
    p99,
    add(index: number, p50: number, top: number, weight: number) {
      const own = Math.max(1, weight);
      weighted[index]! += (p50 / 1_000) * own;
      weights[index]! += own;
      p99[index] = Math.max(p99[index] ?? 0, top / 1_000);
    },
    p50: () => weighted.map((sum, index) => (weights[index] ? sum / weights[index]! : null)),
  };
}

export interface DueBar {
  from: number;
  until: number;
  jobs: number;
}

export type DueRange = "tenMinutes" | "hour" | "day" | "month";
const RANGES: Record<DueRange, { bar: number; bars: number }> = {
  tenMinutes: { bar: 60_000, bars: 10 },
  hour: { bar: 600_000, bars: 6 },
  day: { bar: 3_600_000, bars: 24 },
  month: { bar: 86_400_000, bars: 30 },
};

/** What falls due from now on in even bars, and how many jobs come after the last bar. */
export function dueBars(buckets: DueBucket[], now: number, range: DueRange): { bars: DueBar[]; later: number } {
  const { bar, bars: count } = RANGES[range];
  const bars = Array.from({ length: count }, (_, index) => ({ from: now + index * bar, until: now + (index + 1) * bar, jobs: 0 }));
  let later = 0;
  for (const bucket of buckets) {
    // A bucket counts where its middle lies: buckets are never wider than the bars of their
    // distance.
    const from = Date.parse(bucket.from);
    const until = bucket.until ? Date.parse(bucket.until) : NaN;
    const middle = Number.isNaN(until) ? from : (from + until) / 2;
    const index = Math.max(0, Math.floor((middle - now) / bar));
    if (index < count) bars[index]!.jobs += bucket.jobs;
    else later += bucket.jobs;
  }
  return { bars, later };
}

/** Buckets of several queues. */
export const allBuckets = (of: (DueBucket[] | undefined)[]): DueBucket[] => of.flatMap((buckets) => buckets ?? []);
