// What happened to a job with durable steps, in order: its attempts, kept steps,
// sleeps, waits and signals.
import type { JobDetail } from "../api/types";

export type What = "enqueued" | "started" | "ended" | "step" | "signal" | "timed_out" | "waits" | "settled";

export interface Event {
  at: number;
  what: What;
  /** Of a step, a signal or a wait. */
  name?: string;
  attempt?: number;
  /** How the attempt ended, or the state in which the job settled. */
  outcome?: string;
}

/** Whether a timeline says more of the job than its attempts do. */
export const hasTimeline = (job: JobDetail): boolean =>
  !!job.memos?.length || !!job.attempts?.some((one) => one.outcome === "hold");

/** The events of a job, the earliest first; those of one instant as they follow from each other. */
export function timeline(job: JobDetail): Event[] {
  const events: Event[] = [{ at: Date.parse(job.enqueued_at), what: "enqueued" }];
  const add = (at: string | undefined, event: Omit<Event, "at">) => at && events.push({ at: Date.parse(at), ...event });
  const past = job.attempts ?? [];
  for (const { attempt, started_at, ended_at, outcome } of past) {
    add(started_at, { what: "started", attempt });
    add(ended_at, { what: "ended", attempt, outcome });
  }
  if (job.attempt > 0 && past.at(-1)?.attempt !== job.attempt) add(job.started_at, { what: "started", attempt: job.attempt });
  for (const { at, source, name } of job.memos ?? []) add(at, { what: source as What, name });
  add(job.finished_at, { what: "settled", outcome: job.state });
  const position = (event: Event) => ORDER.indexOf(event.what);
  events.sort((a, b) => a.at - b.at || position(a) - position(b));
  // What it waits for comes last: until then it has no end.
  if (job.state === "held" && hasTimeline(job)) for (const name of job.wait_for ?? []) events.push({ at: Date.parse(job.due), what: "waits", name });
  return events;
}

const ORDER: What[] = ["enqueued", "timed_out", "signal", "started", "step", "ended", "settled", "waits"];
