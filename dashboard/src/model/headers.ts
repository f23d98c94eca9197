// Where a job comes from, by its headers.
import type { Job } from "../api/types";
import { isId } from "./search";

type Pairs = [name: string, value: string][];

export const headerPairs = (headers: Job["headers"]): Pairs => (Array.isArray(headers) ? headers : Object.entries(headers ?? {}));

/** Set by the gateway on what a settlement enqueues: the job that was settled. */
const PARENT = "punctual-parent";
const isParent = ([name]: [string, string]) => name.toLowerCase() === PARENT;

/** The job whose settlement enqueued this one, if it says so. */
export function parentOf(headers: Job["headers"]): string | null {
  const value = headerPairs(headers).find(isParent)?.[1] ?? "";
  return isId(value) ? value.trim().toLowerCase() : null;
}

/** Headers of a copy: a person caused it. */
export function withoutParent(headers: Job["headers"]): Job["headers"] {
  const left = headerPairs(headers).filter((pair) => !isParent(pair));
  return left.length ? (Array.isArray(headers) ? left : Object.fromEntries(left)) : undefined;
}
