// Limits of a queue, and named ones, as a form. It checks the bounds of docs/limits.md before they
// are sent.
import type { Limits, LimitsRequest } from "../api/types";
import { readSpan } from "./time";

export interface LimitsForm {
  concurrency: string;
  starts: string;
  per: string;
  kind: "window" | "smooth";
  burst: string;
}

export type LimitsProblem = "count" | "span" | "burst" | "fast" | "noStarts" | "noSpan";

const COUNT_MAX = 1_000_000;
const SPAN_MS_MIN = 1;
const SPAN_MS_MAX = 365 * 86_400_000;

/** A name that records may have. */
export const isLimitName = (text: string) => /^[a-zA-Z0-9._:/-]{1,122}$/.test(text);

const isCount = (text: string, least: number) => /^\d{1,7}$/.test(text) && Number(text) >= least && Number(text) <= COUNT_MAX;

export const formOf = ({ concurrency, rate }: Pick<Limits, "concurrency" | "rate">): LimitsForm => ({
  concurrency: String(concurrency ?? ""),
  starts: rate ? String(rate.starts) : "",
  per: rate?.per ?? "",
  kind: rate?.kind ?? "window",
  burst: rate?.burst === undefined ? "" : String(rate.burst),
});

/** What is wrong with each field. */
export function checkLimits({ concurrency, starts, per, kind, burst }: LimitsForm): Partial<Record<keyof LimitsForm, LimitsProblem>> {
  const wrong: Partial<Record<keyof LimitsForm, LimitsProblem>> = {};
  if (concurrency && !isCount(concurrency, 1)) wrong.concurrency = "count";
  if (!starts && !per) return wrong;
  const span = readSpan(per);
  if (!starts) wrong.starts = "noStarts";
  else if (!isCount(starts, 1)) wrong.starts = "count";
  else if (kind === "smooth" && span !== null && Number(starts) > span * 1_000) wrong.starts = "fast";
  if (!per) wrong.per = "noSpan";
  else if (span === null || span < SPAN_MS_MIN || span > SPAN_MS_MAX) wrong.per = "span";
  if (kind === "smooth" && burst && (!isCount(burst, 0) || Number(burst) > Number(starts))) wrong.burst = "burst";
  return wrong;
}

/** What a form without a problem sends; null if it sets no limit. */
export function limitsOf({ concurrency, starts, per, kind, burst }: LimitsForm): LimitsRequest | null {
  if (!concurrency && !starts) return null;
  return {
    ...(concurrency && { concurrency: Number(concurrency) }),
    ...(starts && { rate: { kind, starts: Number(starts), per: per.replaceAll(" ", ""), ...(kind === "smooth" && burst && { burst: Number(burst) }) } }),
  };
}

/** What is wrong with how many jobs of a share may wait. */
export const isPending = (text: string) => !text || isCount(text, 1);

/** Settings of shares that a form sends, with those weights; null if they set nothing. */
export function sharesOf(form: LimitsForm, pending: string, weights: Record<string, number>): LimitsRequest["shares"] | null {
  const shares = { ...limitsOf(form), ...(pending && { max_pending: Number(pending) }), ...(Object.keys(weights).length && { weights }) };
  return Object.keys(shares).length ? shares : null;
}

const WEIGHT_MAX = 1_000;

/** Whether it is a weight of a share. */
export const isWeight = (text: string) => /^\d{1,4}$/.test(text) && Number(text) >= 1 && Number(text) <= WEIGHT_MAX;

/** Weights with that of one share changed; 1 is what a share has that is not named. */
export function withWeight(weights: Record<string, number>, share: string, weight: number): Record<string, number> {
  const others = Object.entries(weights).filter(([name]) => name !== share);
  return Object.fromEntries(weight === 1 ? others : [...others, [share, weight]]);
}

const WEIGHTS_MAX = 1_000;

/** Weights as lines of a form: a share and its weight. */
export const weightLines = (weights: Record<string, number> = {}) => Object.entries(weights).map(([share, weight]) => `${share} ${weight}`).join("\n");

/** The weights of such lines; null if a line is none, a share stands twice, or there are too many. */
export function weightsOf(text: string): Record<string, number> | null {
  const weights = new Map<string, number>();
  for (const line of text.split("\n").map((line) => line.trim()).filter(Boolean)) {
    const [, share, weight] = /^(.*\S)\s+(\d{1,4})$/.exec(line) ?? [];
    if (!share || weights.has(share) || Number(weight) < 1 || Number(weight) > WEIGHT_MAX) return null;
    weights.set(share, Number(weight));
  }
  return weights.size > WEIGHTS_MAX ? null : Object.fromEntries(weights);
}

/** What becomes of a new job while a named limit is full. */
export const WHEN_FULL = ["wait", "refuse", "cancel_running"] as const;
export type WhenFull = (typeof WHEN_FULL)[number];

/** The request with it: it needs a concurrency, and waiting is the default. */
export function withWhenFull(wanted: LimitsRequest | null, whenFull: WhenFull): (LimitsRequest & { when_full?: WhenFull }) | null {
  return wanted?.concurrency && whenFull !== "wait" ? { ...wanted, when_full: whenFull } : wanted;
}
