// The gateway's shapes, as docs/http-api.md has them. Instants are RFC 3339, spans text such as "30m".

export const STATES = ["held", "scheduled", "ready", "active", "completed", "cancelled", "dead"] as const;
export type State = (typeof STATES)[number];
export const isSettled = (state: State) => state === "completed" || state === "cancelled" || state === "dead";
export const isPending = (state: State) => state === "held" || state === "scheduled" || state === "ready";

export type Counts = Record<State, number>;

export interface Quantiles {
  p50: number;
  p99: number;
}

/** One minute; spans in microseconds. */
export interface Minute {
  minute: string;
  enqueued: number;
  claimed: number;
  completed: number;
  failed: number;
  dead: number;
  cancelled: number;
  lateness_us?: Quantiles;
  run_time_us?: Quantiles;
}

export interface DueBucket {
  from: string;
  until?: string;
  jobs: number;
}

export interface QueueNow extends Counts {
  queue: string;
  paused: boolean;
  oldest_due_ms?: number;
  due?: DueBucket[];
  history?: Minute[];
  recent?: RecentCounts;
  /** The jobs that ended last, if asked for. */
  ends?: JobEnd[];
}

/** The last five full minutes of a queue and the one that runs. */
export interface RecentCounts {
  enqueued: number;
  claimed: number;
  completed: number;
  failed: number;
  dead: number;
  lateness_us?: Quantiles;
}

export interface WorkerNow {
  id: string;
  host: string;
  version: string;
  queues: string[];
  kinds: string[];
  slots: number;
  busy: number;
  leased: number;
  seen_at: string;
}

export interface Stats {
  queues: QueueNow[];
  workers: WorkerNow[];
  exact: boolean;
  now: string;
  /** All these queues as one, if asked for. */
  total?: { history: Minute[]; due: DueBucket[] };
}

export interface QueueSettings {
  queue: string;
  max_pending?: number;
  on_full: "refuse" | "dead_letter_oldest";
  version: number;
}

export interface Unique {
  key: string;
  policy?: "keep" | "replace" | "after";
  hold?: string;
}

export interface Group {
  key: string;
  on_retry?: "hold" | "pass";
}

export interface Job {
  id: string;
  queue: string;
  kind: string;
  state: State;
  due: string;
  priority: number;
  attempt: number;
  failures: number;
  crashes: number;
  max_attempts: number;
  max_crashes?: number;
  enqueued_at: string;
  started_at?: string;
  finished_at?: string;
  expires_at?: string;
  unique?: string | Unique;
  group?: string | Group;
  retry?: Record<string, unknown> & { policy: string };
  timeout?: string;
  retention?: string;
  wait_for?: string[];
  headers?: Record<string, string> | [string, string][];
  content_type?: string;
  payload?: unknown;
  payload_base64?: string;
  /** In lists: the first characters of the payload, if it is text, and how long it is. */
  preview?: string;
  payload_bytes?: number;
  result?: unknown;
  result_base64?: string;
  progress?: unknown;
  progress_base64?: string;
  last_error?: string;
  cancel_requested?: boolean;
  cancelled?: string;
  dead?: string;
  stopped?: string;
  worker?: string;
  lease_until?: string;
  attempts?: PastAttempt[];
  /** Lines that workers logged, the oldest first. */
  log?: { at: string; attempt: number; text: string }[];
  /** Only a tombstone is left: most fields above are not there. */
  tombstone?: boolean;
}

/** An attempt that did not complete its job. */
export interface PastAttempt {
  attempt: number;
  started_at: string;
  ended_at: string;
  outcome: "retry" | "snooze" | "cancelled" | "dead" | "released" | "crashed";
  worker?: string;
  error?: string;
}

export interface Reason {
  reason: string;
  text?: string;
  [field: string]: unknown;
}

export interface JobDetail extends Job {
  explain?: Reason[];
  now: string;
}

export interface Filter {
  queue?: string;
  state?: State;
  kind?: string;
  text?: string;
  /** Text in the last error. */
  error?: string;
  due_from?: string;
  due_before?: string;
  /** An age: of settled jobs since their end, of others since their enqueue. */
  older_than?: string;
}

/** What a list looks for: a filter, or a key of one queue. */
export interface Query extends Filter {
  unique?: string;
  group?: string;
}

export interface Listing {
  jobs: Job[];
  examined: number;
  cursor?: string;
  now: string;
}

export type Target = { id: string } | { queue: string; unique: string };

export type Simple = "cancel" | "run_now" | "redrive" | "delete";
export type Action = Simple | { reschedule: { delay: string } | { at: string } } | { reprioritise: number };

export interface Verdict {
  target?: number;
  id?: string;
  verdict: string;
  state?: State;
  holder?: string;
}

export interface Edited {
  dry_run: boolean;
  examined: number;
  matched: number;
  changed: number;
  verdicts: Record<string, number>;
  jobs: Verdict[];
  cursor?: string;
  now: string;
}

/** The jobs of one kind; without a name the jobs of every other kind. */
export interface KindLine extends Counts {
  kind?: string;
  failures: number;
  crashes: number;
  oldest_due_ms?: number;
}

/** How a job ended; of the job itself nothing else may be left. */
export interface JobEnd {
  id: string;
  kind: string;
  state: State;
  at: string;
}

/** Dead letters of one cause; numbers and ids within the error are written as `#`. */
export interface DeadGroup {
  queue: string;
  kind: string;
  error: string;
  /** What a list looks for to find the jobs of the group. */
  search?: string;
  jobs: number;
  first: string;
  last: string;
  example: string;
}

export interface DeadGroups {
  groups: DeadGroup[];
  /** Groups that are not in the answer. */
  others: number;
  examined: number;
  complete: boolean;
  now: string;
}

/** One change by a person. */
export interface AuditEntry {
  id: string;
  at: string;
  who: string;
  action: string;
  on: string;
  phase: "begun" | "done" | "failed";
  matched?: number;
  error?: string;
}

export interface Info {
  engine: string;
  version: string;
  namespace: string;
  durability: string;
  clock_jumps: number;
  store_bytes?: number;
  capabilities?: string[];
  limits?: Record<string, number>;
  health: { ok: boolean; problems?: string[]; loops?: { name: string; age_ms: number; restarts: number }[] };
  /** Only for who runs the server. */
  shards?: number;
  process?: { version: string; uptime_ms: number; memory_bytes?: number };
  scopes: string[];
  now: string;
}

export interface Change {
  id: string;
  queue: string;
  state: State;
  at: string;
}

export interface Receipt {
  id: string;
  verdict: string;
  due: string;
  late?: boolean;
  holder?: string;
  durability?: string;
}
