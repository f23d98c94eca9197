// What is wrong, the worst first: what a person at three in the morning must see in two seconds.
import type { Info, Minute, QueueNow, RecentCounts, WorkerNow } from "../api/types";
import type { Words } from "../words";
import { micros, span } from "./time";

export interface Problem {
  /** `bad`: jobs do not run. `warn`: something needs a look. */
  level: "bad" | "warn";
  /** The queue it is about. */
  queue?: string;
  /** Where a click leads: jobs of the queue in that state, else the queue. */
  state?: "dead" | "ready" | "scheduled";
  text: string;
  /** What helps. */
  hint?: string;
  /** A command or the like that helps, shown as code. */
  command?: string;
  /** How much it weighs among its level. */
  weight: number;
}

/**
 * As the engine's own rule of health: the oldest due job may wait that long while workers are free.
 */
const OVERDUE_MS = 5_000;
/** With free workers that is soon as bad as it gets: something is broken. */
const STUCK_MS = 15_000;
/** With busy workers a queue is a backlog, and wrong only after a while. */
const BACKLOG_MS = 60_000;
const BACKLOG_BAD_MS = 300_000;
const LATE_US = 1_000_000;
const FAILED_SHARE = 0.2;
const FAILED_MIN = 5;
const RECENT_MINUTES = 5;

export interface Recent {
  /** Completed in the full minutes. */
  completed: number;
  failed: number;
  dead: number;
  /** Attempts that ended, completed or failed. */
  ended: number;
  lateness99: number | null;
}

/** The last five full minutes of a queue; failures and dead letters of the present minute too. */
export function recent(history: Minute[] | undefined, now: number): Recent {
  const present = Math.floor(now / 60_000) * 60_000;
  const sum: Recent = { completed: 0, failed: 0, dead: 0, ended: 0, lateness99: null };
  for (const minute of history ?? []) {
    const at = Date.parse(minute.minute);
    if (at < present - RECENT_MINUTES * 60_000) continue;
    sum.failed += minute.failed;
    sum.dead += minute.dead;
    sum.ended += minute.completed + minute.failed;
    if (at < present) sum.completed += minute.completed;
    if (minute.lateness_us) sum.lateness99 = Math.max(sum.lateness99 ?? 0, minute.lateness_us.p99);
  }
  return sum;
}

/** The same, of what the gateway has summed: the five full minutes and the one that runs. */
export function recentOf(counts: RecentCounts, now: number): Recent {
  const minutes = RECENT_MINUTES + (now % 60_000) / 60_000;
  return {
    completed: (counts.completed * RECENT_MINUTES) / minutes,
    failed: counts.failed,
    dead: counts.dead,
    ended: counts.completed + counts.failed,
    lateness99: counts.lateness_us?.p99 ?? null,
  };
}

/**
 * Jobs that a worker has: what it says it runs, or the jobs that it holds a lease of, whichever is
 * more.
 */
export const busyOf = (worker: WorkerNow) => Math.max(worker.busy, worker.leased);
export const freeOf = (worker: WorkerNow) => Math.max(0, worker.slots - busyOf(worker));

/** The slots of some workers, and how many of them are taken. */
export function loadOf(workers: WorkerNow[]): { slots: number; busy: number } {
  const slots = workers.reduce((sum, worker) => sum + worker.slots, 0);
  return { slots, busy: slots - workers.reduce((sum, worker) => sum + freeOf(worker), 0) };
}

export function problemsOf(queue: QueueNow, workers: WorkerNow[], past: Recent | null, words: Words): Problem[] {
  const say = words.problems;
  const found: Problem[] = [];
  const name = queue.queue;
  const waits = queue.oldest_due_ms ?? 0;
  const mine = workers.filter((worker) => worker.queues.includes(name));
  if (queue.paused) {
    if (queue.ready > 0) {
      found.push({ level: "warn", queue: name, state: "ready", text: say.paused(queue.ready), hint: say.pausedSince, weight: waits });
    }
  } else if (queue.ready > 0 && waits > OVERDUE_MS) {
    const overdue = { queue: name, state: "ready" as const, weight: waits };
    if (!mine.length) {
      found.push({ ...overdue, level: "bad", text: say.noWorker(queue.ready, span(waits)), hint: say.startWorker, command: `punctual work ${name} --exec CMD`, weight: waits * 2 });
    } else {
      const { slots, busy } = loadOf(mine);
      const full = busy >= slots;
      if (!full || waits > BACKLOG_MS) {
        const hint = full ? say.allBusy(busy, slots) : say.someFree;
        found.push({ ...overdue, level: waits > (full ? BACKLOG_BAD_MS : STUCK_MS) ? "bad" : "warn", text: say.overdue(queue.ready, span(waits)), hint });
      }
    }
  }
  if (past) found.push(...troubles(name, past, words));
  return found;
}

function troubles(queue: string, past: Recent, words: Words): Problem[] {
  const say = words.problems;
  const found: Problem[] = [];
  if (past.dead > 0) found.push({ level: "bad", queue, state: "dead", text: say.newDead(past.dead), hint: say.redrive, weight: past.dead });
  const share = past.failed / Math.max(1, past.ended);
  if (past.failed >= FAILED_MIN && share >= FAILED_SHARE) {
    found.push({ level: "warn", queue, state: "scheduled", text: say.failing(Math.round(share * 100), past.failed), hint: say.readErrors, weight: past.failed });
  }
  if (past.lateness99 !== null && past.lateness99 > LATE_US) {
    found.push({ level: "warn", queue, text: say.late(micros(past.lateness99)), hint: say.moreSlots, weight: past.lateness99 / 1_000 });
  }
  return found;
}

/** Whether the engine itself reports a problem of this queue that the page has found too. */
const isDouble = (text: string, found: Problem[]) => found.some((problem) => problem.queue && text.startsWith(`queue ${problem.queue}:`));

export function problemsOfEngine(info: Info | null, found: Problem[], words: Words): Problem[] {
  const problems: Problem[] = [];
  for (const text of info?.health.problems ?? []) {
    if (!isDouble(text, found)) problems.push({ level: "bad", text: `${words.problems.health}: ${text}`, weight: 1e12 });
  }
  if (info && info.clock_jumps > 0) problems.push({ level: "warn", text: words.problems.clock(info.clock_jumps), weight: 0 });
  return problems;
}

export function sortProblems(problems: Problem[]): Problem[] {
  const severity = { bad: 0, warn: 1 };
  return [...problems].sort((a, b) => severity[a.level] - severity[b.level] || b.weight - a.weight);
}
