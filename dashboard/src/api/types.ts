// The gateway's shapes, from its OpenAPI description; what the page knows more exactly is said
// here. Instants are RFC 3339, spans text such as "30m".

import type { components } from "./types.gen";

type Described = components["schemas"];

/**
 * An object as an answer has it: a field is there with a value or is left out. `Always` names those
 * that never are.
 */
type Answer<T, Always extends keyof T = never> = { [K in Exclude<keyof T, Always>]?: NonNullable<T[K]> } & {
  [K in Always]-?: NonNullable<T[K]>;
};

/** The same with other types for some of its fields, each of which must be described. */
type With<T, More extends { [K in keyof More]: K extends keyof T ? unknown : never }> = Omit<T, keyof More> & More;

export const STATES = ["held", "scheduled", "ready", "active", "completed", "cancelled", "dead"] as const;
export type State = (typeof STATES)[number];
export const isSettled = (state: State) => state === "completed" || state === "cancelled" || state === "dead";
export const isPending = (state: State) => state === "held" || state === "scheduled" || state === "ready";

export type Counts = Record<State, number>;

export type Quantiles = Described["Quantiles"];

/** One minute; spans in microseconds. */
export type Minute = Answer<Described["MinuteLine"], "minute" | "enqueued" | "claimed" | "completed" | "failed" | "dead" | "cancelled">;

export type DueBucket = Answer<Described["DueLine"], "from" | "jobs">;

export type QueueNow = With<
  Answer<Described["Queue"], "queue" | "paused" | State>,
  { due?: DueBucket[]; history?: Minute[]; recent?: RecentCounts; ends?: JobEnd[]; limits?: Limits }
>;

/** The limits of a queue and how they stand. */
export type Limits = With<Answer<Described["Limits"]>, { rate?: Answer<Described["Rate"], "kind" | "starts" | "per"> }>;

/** The last five full minutes of a queue and the one that runs. */
export type RecentCounts = Answer<Described["Recent"], "enqueued" | "claimed" | "completed" | "failed" | "dead">;

export type WorkerNow = Described["WorkerSeenLine"];

export type Stats = With<
  Answer<Described["StatsAnswer"], "queues" | "workers" | "exact" | "now">,
  { queues: QueueNow[]; workers: WorkerNow[]; total?: { history: Minute[]; due: DueBucket[] } }
>;

export type QueueSettings = With<Answer<Described["SettingsLine"], "queue" | "version">, { on_full: Described["OnFullLine"] }>;

export type Unique = Exclude<Described["UniqueLine"], string>;

export type Group = Partial<Exclude<Described["GroupLine"], string>> & { key: string };

/**
 * A job, or its tombstone. Sent fields that a job to send has and an answer has not are left out.
 */
export type Job = With<
  Answer<
    Omit<Described["ListedJob"], "delay" | "at" | "target" | "callback">,
    "id" | "queue" | "kind" | "due" | "priority" | "attempt" | "failures" | "crashes" | "max_attempts" | "enqueued_at"
  >,
  {
    state: State;
    unique?: string | Unique;
    group?: string | Group;
    retry?: Record<string, unknown> & { policy: string };
    headers?: Record<string, string> | [string, string][];
    attempts?: PastAttempt[];
  }
> & {
  /** Only a tombstone is left: most fields above are not there. */
  tombstone?: boolean;
};

/** An attempt that did not complete its job. */
export type PastAttempt = With<
  Answer<Described["PastAttempt"], "attempt" | "started_at" | "ended_at" | "outcome">,
  { outcome: "retry" | "snooze" | "cancelled" | "dead" | "released" | "crashed" | "hold" }
>;

export type Reason = Answer<Described["Reason"], "reason"> & { [field: string]: unknown };

export type JobDetail = Job & { explain?: Reason[]; now: string };

export type Filter = With<Answer<Described["FilterLine"]>, { state?: State }>;

/** What a list asks for: a filter, a key of one queue, or a named limit. */
export interface Query extends Filter {
  unique?: string;
  group?: string;
  limit_name?: string;
}

export type Listing = With<Answer<Described["JobList"], "examined" | "now">, { jobs: Job[] }>;

export type Target = Described["TargetLine"];

export type Simple = Extract<Action, string>;
export type Action = Exclude<Described["ActionLine"], { reprioritise: number } | { reschedule: unknown } | { update_payload: unknown }> | { reschedule: { delay: string } | { at: string } } | { reprioritise: number };

export type Verdict = With<Answer<Described["EditedJob"], "verdict">, { state?: State }>;

export type Edited = With<
  Answer<Described["EditAnswer"], "dry_run" | "examined" | "matched" | "changed" | "now">,
  { verdicts: Record<string, number>; jobs: Verdict[] }
>;

/** The jobs of one kind; without a name the jobs of every other kind. */
export type KindLine = Answer<Described["KindLine"], State | "failures" | "crashes">;

/** How a job ended; of the job itself nothing else may be left. */
export type JobEnd = With<Described["JobEnd"], { state: State }>;

/** Dead letters of one cause; numbers and ids within the error are written as `#`. */
export type DeadGroup = Answer<Described["DeadGroup"], "queue" | "kind" | "error" | "jobs" | "first" | "last" | "example">;

export type DeadGroups = With<Described["DeadAnswer"], { groups: DeadGroup[] }>;

/** One change by a person. */
export type AuditEntry = With<
  Answer<Omit<Described["AuditEntry"], "namespace">, "id" | "at" | "who" | "action" | "on" | "phase">,
  { phase: "begun" | "done" | "failed" }
>;

export type Info = With<
  Answer<Omit<Described["InfoAnswer"], "settled_window">, "engine" | "version" | "namespace" | "durability" | "clock_jumps" | "health" | "scopes" | "now">,
  {
    limits?: Record<string, number>;
    capabilities?: string[];
    health: { ok: boolean; problems?: string[]; loops?: { name: string; age_ms: number; restarts: number }[] };
    process?: { version: string; uptime_ms: number; memory_bytes?: number };
  }
>;

/** A schedule, and how it stands. */
export type Schedule = With<
  Answer<Described["ScheduleAnswer"], "name" | "version" | "schedule" | "next" | "dry" | "ended" | "fired" | "skipped" | "missed">,
  { schedule: With<Described["Schedule"], { job: Described["Job"] & { queue: string } }> }
>;

export type ScheduleList = With<Answer<Described["ScheduleList"], "schedules">, { schedules: Schedule[] }>;

export type Run = Answer<Described["RunAnswer"], "id" | "verdict">;

/** A relay that the server runs, and how it is. */
export type Subscription = Described["SubscriptionAnswer"];
export type SubscriptionFilter = Described["SubscriptionFilter"];
export type Matched = Described["MatchedLine"];
export type LockNow = With<
  Answer<Described["Lock"], "name">,
  { holder?: Answer<Described["LockHolder"], "ticket">; waiters: Answer<Described["LockWaiter"], "host" | "seen_at">[] }
>;

export type Relay = With<Described["Relay"], { state: RelayState }>;
export type RelayState = "connecting" | "running" | "engine_refuses" | "down";

/** A flow with how it stands. */
export type Flow = With<Answer<Described["Flow"], "name" | "state" | "counts" | "on_failure" | "created_at" | "callbacks">, { state: FlowState }>;
export type FlowState = "open" | "running" | "done" | "failed" | "cancelled";
export type FlowCounts = Described["FlowCounts"];

export type FlowList = With<Answer<Described["FlowList"], "flows">, { flows: Flow[] }>;

/** A step of a flow, with how its job stands. */
export type Step = With<Answer<Described["Step"], "name" | "id" | "state" | "skipped" | "waits">, { state: State }>;

export type StepList = With<Answer<Described["StepList"], "steps">, { steps: Step[] }>;

/** The same with the text of its result. */
export type StepResult = Step & { source?: string };

/** That a step waits for another one; a job of no step of this flow has no name. */
export type Retried = Described["Retried"];

export type Edge = With<Answer<Described["FlowEdge"], "from_id" | "to_id" | "on" | "met">, { on: "completed" | "failed" | "settled" }>;

export type Recount = Described["Recount"];

/** The limits of a queue, how they stand, and how many of its jobs are active. */
export type QueueLimits = Limits & { queue: string; active: number; shares?: Described["Shares"] };

/** A share of a queue and how it stands. */
export type Share = Answer<Described["Share"], "share" | "ready" | "active" | "weight">;

export type LimitsRequest = Described["LimitsRequest"];

/** A limit that jobs of all queues name, and how it stands. */
export type NamedLimit = With<Answer<Described["NamedLimit"], "name" | "active" | "waiting">, { rate?: NonNullable<Limits["rate"]> }>;

/** What a backfill did, or would, between two instants. */
export type Backfilled = With<Described["Backfilled"], { runs: Run[] }> & { from: string; to: string };

/** A change of a job's state, as the socket sends it: OpenAPI has no frames of sockets. */
export interface Change {
  id: string;
  queue: string;
  state: State;
  at: string;
}

export type Receipt = Answer<Described["ReceiptLine"], "id" | "verdict" | "due"> & { durability?: string };
