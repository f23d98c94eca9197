// Edits of many jobs: count first, then do to exactly those that were counted, then undo where it
// can be.
import { TARGETS_MAX, editFilter, editTargets, enqueueText, job as getJob, list } from "../api/client";
import type { Action, Edited, Filter, Job, Query } from "../api/types";
import { rawField } from "./json";

export type Scope = { jobs: Job[] } | { query: Query; filter: Filter };

export interface Tally {
  examined: number;
  changed: number;
  verdicts: Record<string, number>;
  /** Those that were (or would be) changed, up to a bound. */
  ids: string[];
  /** Whether `ids` has all of them. */
  allIds: boolean;
  done: boolean;
}

const empty = (): Tally => ({ examined: 0, changed: 0, verdicts: {}, ids: [], allIds: true, done: false });

/** Up to that many counted jobs are edited by id; more by the filter once more. */
const IDS_MAX = 20_000;
/** Undo remembers that many jobs, and enqueues again that many. */
export const UNDO_MAX = 500;
export const COPIES_MAX = 100;

const isChange = (verdict: string) => verdict === "done" || verdict === "cancel_requested";

function add(tally: Tally, answer: Edited) {
  tally.examined += answer.examined;
  tally.changed += answer.changed;
  for (const [name, times] of Object.entries(answer.verdicts)) tally.verdicts[name] = (tally.verdicts[name] ?? 0) + times;
  const ids = answer.jobs.filter((one) => isChange(one.verdict) && one.id).map((one) => one.id!);
  if (tally.ids.length + ids.length <= IDS_MAX) tally.ids.push(...ids);
  else tally.allIds = false;
}

/** Runs an edit over a scope, dry or not; `seen` is called after each call. */
export async function run(action: Action, scope: Scope | { ids: string[] }, dryRun: boolean, seen: (tally: Tally) => void, stop: AbortSignal): Promise<Tally> {
  const tally = empty();
  if ("filter" in scope) {
    let cursor: string | undefined;
    do {
      const answer = await editFilter(action, scope.filter, dryRun, cursor, stop);
      add(tally, answer);
      cursor = answer.cursor;
      seen({ ...tally });
    } while (cursor && !stop.aborted);
    tally.done = !cursor;
  } else {
    const ids = "ids" in scope ? scope.ids : scope.jobs.map((one) => one.id);
    for (let at = 0; at < ids.length && !stop.aborted; at += TARGETS_MAX) {
      const targets = ids.slice(at, at + TARGETS_MAX).map((id) => ({ id }));
      add(tally, await editTargets(action, targets, dryRun, stop));
      seen({ ...tally });
    }
    tally.done = !stop.aborted;
  }
  seen({ ...tally });
  return tally;
}

export interface Undo {
  copies: boolean;
  run(): Promise<{ back: number; lost: number }>;
}

const nameOf = (action: Action) => (typeof action === "string" ? action : Object.keys(action)[0]!);

/** What undo needs to know, read before the edit; null if it cannot be undone. */
export async function prepareUndo(action: Action, scope: Scope, tally: Tally, stop: AbortSignal): Promise<Undo | null> {
  const name = nameOf(action);
  if (name === "cancel") {
    if (!tally.allIds || tally.ids.length > COPIES_MAX || tally.verdicts.cancel_requested) return null;
    const ids = [...tally.ids];
    return { copies: true, run: () => enqueueAgain(ids) };
  }
  if (name !== "reschedule" && name !== "run_now" && name !== "reprioritise") return null;
  if (!tally.allIds || tally.ids.length > UNDO_MAX) return null;
  const wanted = new Set(tally.ids);
  const jobs = (await known(scope, wanted, stop)).filter((one) => wanted.has(one.id));
  const fixed = name === "run_now" ? jobs.filter((one) => one.state === "held").length : 0;
  const usable = name === "run_now" ? jobs.filter((one) => one.state !== "held") : jobs;
  return { copies: false, run: () => putBack(name, usable, fixed) };
}

async function known(scope: Scope, wanted: Set<string>, stop: AbortSignal): Promise<Job[]> {
  if ("jobs" in scope) return scope.jobs;
  const found: Job[] = [];
  let cursor: string | undefined;
  do {
    const answer = await list(scope.query, { cursor }, stop);
    found.push(...answer.jobs.filter((one) => wanted.has(one.id)));
    cursor = answer.cursor;
  } while (cursor && found.length < wanted.size && !stop.aborted);
  return found;
}

async function putBack(name: "reschedule" | "run_now" | "reprioritise", jobs: Job[], lostBefore: number) {
  const groups = new Map<string, Job[]>();
  for (const one of jobs) {
    const value = name === "reprioritise" ? String(one.priority) : one.due;
    groups.set(value, [...(groups.get(value) ?? []), one]);
  }
  let back = 0;
  for (const [value, group] of groups) {
    const action: Action = name === "reprioritise" ? { reprioritise: Number(value) } : { reschedule: { at: value } };
    const answer = await editTargets(action, group.map(({ id }) => ({ id })), false);
    back += answer.changed;
  }
  return { back, lost: jobs.length - back + lostBefore };
}

/** Cancelled jobs are kept whole for a day: each is enqueued again as it was, under a new id. */
async function enqueueAgain(ids: string[]) {
  let back = 0;
  for (const id of ids) {
    try {
      const { job, source } = await getJob(id);
      if (job.state !== "cancelled") continue;
      const receipt = await enqueueText(asNew(job, source));
      if (receipt.verdict === "created" || receipt.verdict === "replaced") back += 1;
    } catch {
      // It is counted as lost.
    }
  }
  return { back, lost: ids.length - back };
}

const SENT = ["queue", "kind", "content_type", "headers", "priority", "unique", "group", "max_attempts", "max_crashes", "retry", "timeout", "retention", "wait_for", "payload_base64"] as const;

/** The body that enqueues a job as it was sent, its payload byte for byte. */
export function asNew(job: Job, source: string): string {
  const fields: Record<string, unknown> = { at: job.due };
  for (const name of SENT) if (job[name] !== undefined) fields[name] = job[name];
  if (job.expires_at && Date.parse(job.expires_at) > Date.now()) fields.expires_at = job.expires_at;
  return withPayload(fields, rawField(source, "payload"));
}

/** A JSON object with a payload whose text is kept as it is. */
export function withPayload(fields: Record<string, unknown>, payload: string | null): string {
  const text = JSON.stringify(fields);
  if (payload === null) return text;
  return `${text.slice(0, -1)}${text === "{}" ? "" : ","}"payload":${payload}}`;
}
