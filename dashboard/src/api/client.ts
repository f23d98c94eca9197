// The routes of docs/http-api.md that the page uses.
import { readJson } from "../model/json";
import { learnNow } from "../model/time";
import { query, request, requestText } from "./http";
import type { Action, AuditEntry, Backfilled, DeadGroups, Edge, Edited, Filter, Flow, FlowList, Info, Job, JobDetail, JobEnd, KindLine, LimitsRequest, Listing, LockNow, Matched, NamedLimit, Query, QueueLimits, QueueSettings, Receipt, Recount, Relay, Retried, Run, Schedule, ScheduleList, Share, State, Stats, StepList, StepResult, Subscription, Target } from "./types";

/** The most jobs that one list, or targets that one edit, may have. */
export const LIST_MAX = 1_000;
/** The same where each job shows the begin of its payload. */
const PREVIEWS_MAX = 200;
export const TARGETS_MAX = 1_000;

async function timed<T extends { now?: string }>(answer: Promise<T>): Promise<T> {
  const value = await answer;
  learnNow(value.now);
  return value;
}

export const info = (stop?: AbortSignal) => timed(request<Info>("GET", "info", undefined, stop));

export function stats(of: { queues?: string[]; history?: boolean; due?: boolean; total?: boolean; minutes?: number }, stop?: AbortSignal): Promise<Stats> {
  const params = new URLSearchParams();
  for (const queue of of.queues ?? []) params.append("queue", queue);
  if (of.history) params.set("history", "true");
  if (of.due) params.set("due", "true");
  if (of.total) params.set("total", "true");
  if (of.minutes) params.set("minutes", String(of.minutes));
  const text = params.toString();
  return timed(request<Stats>("GET", `stats${text && `?${text}`}`, undefined, stop));
}

export interface Page {
  cursor?: string;
  limit?: number;
  /** That many characters of each payload; without it none. */
  preview?: number;
}

export function list(of: Query, page: Page = {}, stop?: AbortSignal): Promise<Listing> {
  const { preview, limit = preview ? PREVIEWS_MAX : LIST_MAX, cursor } = page;
  const fields = { ...of, limit, cursor, ...(preview ? { preview } : { payloads: false }) };
  return timed(request<Listing>("GET", `jobs${query(fields)}`, undefined, stop));
}

/** Jobs that a search by the end of an id examines, as many as the command does. */
const ENDS_EXAMINED_MAX = 100_000;

/** The ids that end in these characters. */
export async function idsEndingIn(end: string): Promise<string[]> {
  const found = new Set<string>();
  let cursor: string | undefined;
  let examined = 0;
  do {
    const page = await list({}, cursor ? { cursor } : {});
    for (const { id } of page.jobs) if (id.replaceAll("-", "").endsWith(end)) found.add(id);
    examined += page.examined;
    cursor = page.cursor;
  } while (cursor && examined < ENDS_EXAMINED_MAX);
  return [...found];
}

/** A job with its explanation, and the answer's own text: payloads are shown byte for byte. */
export async function job(id: string, stop?: AbortSignal): Promise<{ job: JobDetail; source: string }> {
  const source = await requestText("GET", `jobs/${encodeURIComponent(id)}?explain=true`, undefined, stop);
  const job = JSON.parse(source) as JobDetail;
  learnNow(job.now);
  return { job, source };
}

export const editTargets = (action: Action, targets: Target[], dryRun: boolean, stop?: AbortSignal) =>
  timed(request<Edited>("POST", "edits", { action, targets, dry_run: dryRun }, stop));

export const editFilter = (action: Action, filter: Filter, dryRun: boolean, cursor?: string, stop?: AbortSignal) =>
  timed(request<Edited>("POST", "edits", { action, filter, dry_run: dryRun, limit: 1_000, ...(cursor && { cursor }) }, stop));

/** Enqueues one job whose text is JSON already, so that its payload keeps every byte. */
export const enqueueText = (body: string) => timed(request<Receipt & { now?: string }>("POST", "jobs", body));
export const enqueueMany = (jobs: Partial<Job>[]) => timed(request<{ receipts: Receipt[]; now?: string }>("POST", "jobs", jobs));

/** Changes one job by a body whose text is JSON already. */
export const patchText = (id: string, body: string) => request<unknown>("PATCH", `jobs/${encodeURIComponent(id)}`, body);

export const setPaused = (queue: string, paused: boolean) =>
  request<{ changed: boolean }>("POST", `queues/${paused ? "pause" : "resume"}`, { queue });
export const setSharePaused = (queue: string, share: string, paused: boolean) =>
  request<{ changed: boolean }>("POST", `queues/${paused ? "pause" : "resume"}`, { queue, share });
export const purgeCount = (queue: string) => request<{ pending: number }>("POST", "queues/purge", { queue, dry_run: true });
export const purge = (queue: string, cursor?: string) =>
  request<{ examined: number; cancelled: number; cursor?: string }>("POST", "queues/purge", { queue, dry_run: false, ...(cursor && { cursor }) });

export const kinds = (queue: string, stop?: AbortSignal) => timed(request<{ kinds: KindLine[]; exact: boolean; now: string }>("GET", `kinds${query({ queue })}`, undefined, stop));
/** The last hundred jobs of a queue that ended, the latest first. */
export async function ends(queue: string, stop?: AbortSignal): Promise<JobEnd[]> {
  const answer = await timed(request<Stats>("GET", `stats${query({ queue, ends: true })}`, undefined, stop));
  return answer.queues[0]?.ends ?? [];
}
/** Dead letters by queue, kind and error; of a gateway that cannot group them, none. */
export const deadGroups = (of: { queue?: string | undefined; kind?: string | undefined }, stop?: AbortSignal) => timed(request<DeadGroups>("GET", `dead-groups${query(of)}`, undefined, stop));
export const audit = (limit: number, stop?: AbortSignal) => request<{ entries: AuditEntry[] }>("GET", `audit${query({ limit })}`, undefined, stop);

export const deleteQueue = (queue: string) => request<{ deleted: boolean }>("POST", "queues/delete", { queue });
export const setSettings = (wanted: QueueSettings) => request<{ version: number }>("PUT", "queues/settings", wanted);
export const settings = (queue: string, stop?: AbortSignal) => request<QueueSettings>("GET", `queues/settings${query({ queue })}`, undefined, stop);

const ofLimits = (queue: string) => `queues/${encodeURIComponent(queue)}/limits`;
export const limits = (queue: string, stop?: AbortSignal) => request<QueueLimits>("GET", ofLimits(queue), undefined, stop);
export const setLimits = (queue: string, wanted: LimitsRequest) => request<QueueLimits>("PUT", ofLimits(queue), wanted);
/** The shares of a queue with the most ready jobs. */
export const SHARES_MAX = 20;
export const shares = (queue: string, stop?: AbortSignal) => request<{ shares: Share[] }>("GET", `queues/${encodeURIComponent(queue)}/shares${query({ top: SHARES_MAX })}`, undefined, stop);
export const removeLimits = (queue: string) => request<QueueLimits>("DELETE", ofLimits(queue));

/** The named limits that one list has at most. */
export const NAMED_LIMITS_MAX = 100;
const namedLimit = (name: string) => `limits/${encodeURIComponent(name)}`;
export const namedLimits = (after: string, stop?: AbortSignal) =>
  request<{ limits: NamedLimit[]; next?: string }>("GET", `limits${query({ after: after || undefined, limit: NAMED_LIMITS_MAX })}`, undefined, stop);
export const setNamedLimit = (name: string, wanted: LimitsRequest) => request<NamedLimit>("PUT", namedLimit(name), wanted);
export const removeNamedLimit = (name: string) => request<NamedLimit>("DELETE", namedLimit(name));
export const blockNamedLimit = (name: string, span: string) => request<{ changed: boolean }>("POST", `${namedLimit(name)}/block`, { span });

export const subscriptions = (stop?: AbortSignal) => request<{ subscriptions: Subscription[] }>("GET", "subscriptions", undefined, stop);
/** Who would receive a message; nothing is stored. */
export const matchMessage = (subject: string, job: Record<string, unknown>) => request<{ matched: number; subscriptions: Matched[] }>("POST", "publish/match", { subject, job });

/** Locks that are held or waited for. */
export const locks = (stop?: AbortSignal) => request<{ locks: LockNow[] }>("GET", "locks", undefined, stop);

export const relays = (stop?: AbortSignal) => request<{ relays: Relay[] }>("GET", "relays", undefined, stop);

/** The flows that one list has at most. */
export const FLOWS_MAX = 100;
/** The steps that one call answers or examines, and the largest flow whose edges can be read. */
export const STEPS_MAX = 1_000;
const ofFlow = (name: string, act = "") => `flows/${encodeURIComponent(name)}${act && `/${act}`}`;
export const flows = (after: string, stop?: AbortSignal) => request<FlowList>("GET", `flows${query({ after, limit: FLOWS_MAX })}`, undefined, stop);
export const flow = (name: string, stop?: AbortSignal) => request<Flow>("GET", ofFlow(name), undefined, stop);
export const steps = (name: string, of: { from: number; limit: number; state?: State | undefined }, stop?: AbortSignal) => request<StepList>("GET", `${ofFlow(name, "steps")}${query(of)}`, undefined, stop);
/** The same, with each result as the bytes of the answer: numbers beyond 2^53 too. */
export async function stepsWithResults(name: string, of: { from: number; limit: number; state?: State | undefined }, stop?: AbortSignal): Promise<{ steps: StepResult[]; next?: number }> {
  const source = await requestText("GET", `${ofFlow(name, "steps")}${query(of)}`, undefined, stop);
  const answer = JSON.parse(source) as StepList;
  const root = readJson(source);
  const list = root?.kind === "object" ? root.entries.find((entry) => entry.name === "steps")?.value : undefined;
  const steps = answer.steps.map((step, at) => {
    const node = list?.kind === "array" ? list.items[at] : undefined;
    const result = node?.kind === "object" ? node.entries.find((entry) => entry.name === "result")?.value : undefined;
    return result ? { ...step, source: source.slice(result.start, result.end) } : step;
  });
  return { ...answer, steps };
}
export const edges = async (name: string, stop?: AbortSignal) => (await request<{ edges: Edge[] }>("GET", ofFlow(name, "graph"), undefined, stop)).edges;
export const cancelFlow = (name: string) => request<Flow>("POST", ofFlow(name, "cancel"));
/** Runs again what is dead or cancelled, or one step and all that depends on it. */
export const retryFlow = (name: string, from?: string) => request<Retried>("POST", ofFlow(name, "retry"), from === undefined ? {} : { from });
export const recountFlow = (name: string) => request<Recount>("GET", ofFlow(name, "recount"));

/** The schedules that one list has at most. */
export const SCHEDULES_MAX = 100;
const ofSchedule = (name: string, act = "") => `schedules/${encodeURIComponent(name)}${act && `/${act}`}`;
export const schedules = (after: string, stop?: AbortSignal) => request<ScheduleList>("GET", `schedules${query({ after, limit: SCHEDULES_MAX })}`, undefined, stop);
export const schedule = (name: string, stop?: AbortSignal) => request<Schedule>("GET", ofSchedule(name), undefined, stop);
export const pauseSchedule = (name: string, note: string) => request<Schedule>("POST", ofSchedule(name, "pause"), { note });
export const resumeSchedule = (name: string) => request<Schedule>("POST", ofSchedule(name, "resume"));
export const runSchedule = (name: string) => request<Run>("POST", ofSchedule(name, "run"));
export const skipSchedule = (name: string) => request<Schedule>("POST", ofSchedule(name, "skip"));
export const removeSchedule = (name: string) => request<{ removed: boolean }>("DELETE", ofSchedule(name));
export const backfillSchedule = (name: string, span: { from: string; to: string; dry_run: boolean }) => request<Omit<Backfilled, "from" | "to">>("POST", ofSchedule(name, "backfill"), span);
