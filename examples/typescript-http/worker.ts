// A Punctual worker over HTTP with nothing but fetch.
//
// It claims a lease of jobs, runs them beside each other, extends the lease meanwhile, settles each
// job as it ends and keeps the rest, and stops at once when the lease is lost. See README.md beside
// this file.

import { randomBytes, randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

const {
  PUNCTUAL_URL = "http://127.0.0.1:4180",
  PUNCTUAL_TOKEN = "",
  QUEUE = "files",
  JOB_SECONDS = "20",
  WORKER_NAME = `${hostname()}-${process.pid}`,
} = process.env;
const LEASE_MS = Number(process.env.LEASE_MS ?? "10000");

interface Job {
  id: string;
  attempt: number;
  due: string;
  payload?: { seconds?: number };
}
interface Lease {
  token: string;
  jobs: Job[];
}
interface Claimed {
  leases: Lease[];
  now: string;
  took_us: number;
  suspects_wait: boolean;
}
interface Extended {
  leases: { lease_lost?: boolean; cancel_requested?: string[] }[];
}
interface Settled {
  leases: { settlements: { verdict: "settled" | "repeated" | "lease_lost" }[] }[];
}
type Outcome =
  | { outcome: "completed"; result?: unknown }
  | { outcome: "retry"; error: string }
  | { outcome: "released" };
/** What the dashboard shows of a queue, in microseconds. */
interface Measured {
  lateness_us: number[];
  run_time_us: number[];
}

/** It is unknown whether it was done: the same again is safe. */
class Unanswered extends Error {}

/** One request, JSON in and out; what the gateway refuses for good ends this process. */
async function call<Answer>(route: string, body: unknown, ended?: AbortSignal): Promise<Answer> {
  let response: Response;
  let text: string;
  try {
    response = await fetch(`${PUNCTUAL_URL}/v1/${route}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", Authorization: `Bearer ${PUNCTUAL_TOKEN}` },
      body: JSON.stringify(body),
      signal: ended ?? AbortSignal.timeout(10_000),
    });
    text = await response.text();
  } catch (error) {
    throw new Unanswered(String(error));
  }
  if (response.ok) return JSON.parse(text);
  throw [429, 503].includes(response.status) ? new Unanswered(text) : new Error(text);
}

const say = (text: string) => console.log(`${WORKER_NAME}: ${text}`);
const newNonce = () => randomBytes(8).toString("hex");

/** The work itself. Ends early when `lost` is aborted: then another worker runs the job. */
async function handle(job: Job, lost: AbortSignal): Promise<unknown> {
  const seconds = job.payload?.seconds ?? Number(JOB_SECONDS);
  await sleep(seconds * 1000, undefined, { signal: lost });
  return { by: WORKER_NAME, seconds };
}

/** Extends a lease at a third of its duration until it is done, or lost. */
async function keep(token: string, done: AbortSignal, lost: AbortController): Promise<void> {
  while (!done.aborted) {
    await sleep(LEASE_MS / 3, undefined, { signal: done }).catch(() => {});
    if (done.aborted) return;
    try {
      const leases = [{ token, lease_duration: `${LEASE_MS}ms` }];
      const answer = await call<Extended>("extensions", { leases });
      if (answer.leases[0]?.lease_lost) return lost.abort();
    } catch (error) {
      if (!(error instanceof Unanswered)) throw error;
      say(`extend failed, trying again: ${error.message}`);
    }
  }
}

/** Settles one job of the lease, the others stay in it; whether that counted. */
async function settle(
  token: string,
  job: Job,
  lost: AbortSignal,
  outcome: Outcome,
  measured: Measured,
): Promise<boolean> {
  const settlement = { id: job.id, attempt: job.attempt, ...outcome };
  let giveUpAt: number | undefined;
  while (!lost.aborted) {
    try {
      const leases = [{ token, settlements: [settlement], ...measured }];
      const answer = await call<Settled>("settlements", { leases });
      const verdict = answer.leases[0]!.settlements[0]!.verdict;
      say(`settled ${job.id} ${outcome.outcome}: ${verdict}`);
      return verdict !== "lease_lost";
    } catch (error) {
      if (!(error instanceof Unanswered)) throw error;
      // A worker that is asked to end waits for the gateway for one lease.
      if (stopping.signal.aborted) {
        giveUpAt ??= performance.now() + Number(LEASE_MS);
        if (performance.now() >= giveUpAt) {
          say(`settle of ${job.id} given up: ${error.message}`);
          return false;
        }
      }
      say(`settle failed, trying again: ${error.message}`);
      await sleep(500); // the same settle again answers `repeated`
    }
  }
  return false;
}

const microseconds = (ms: number) => Math.max(0, Math.round(ms * 1000));

/**
 * Runs a job and settles it; whether that counted. `now` is the gateway's instant of the answer
 * whose claim it sent at `sent`.
 */
async function runOne(token: string, job: Job, lost: AbortSignal, now: string, sent: number): Promise<boolean> {
  let outcome: Outcome;
  const started = performance.now();
  const late = Date.parse(now) - Date.parse(job.due) + started - sent;
  try {
    say(`started ${job.id} attempt ${job.attempt}`);
    outcome = { outcome: "completed", result: await handle(job, lost) };
  } catch (error) {
    // The job's own failure: another attempt, by its retry policy.
    outcome = { outcome: "retry", error: String(error).slice(0, 2000) };
  }
  const ran = performance.now() - started;
  return settle(token, job, lost, outcome, {
    lateness_us: [microseconds(late)],
    run_time_us: [microseconds(ran)],
  });
}

/** Runs the jobs of a lease beside each other. */
async function run({ token, jobs }: Lease, now: string, sent: number): Promise<void> {
  const done = new AbortController();
  const lost = new AbortController();
  const extender = keep(token, done.signal, lost);
  const counted = await Promise.all(jobs.map((job) => runOne(token, job, lost.signal, now, sent)));
  if (counted.includes(false)) say("lease lost: another worker has the jobs of this lease");
  done.abort();
  await extender;
}

const stopping = new AbortController();
process.on("SIGTERM", () => stopping.abort());

/**
 * What one claim answers, the moment a job is due. With the same nonce a lease whose answer was
 * lost is answered again; a claim that is cut while it waits takes no job.
 */
async function claim(nonce: string): Promise<Claimed> {
  const wish = { queues: [QUEUE], limit: 10, lease_duration: `${LEASE_MS}ms`, worker, nonce };
  const answer = await call<Claimed>("claims", { ...wish, wait: "30s" }, stopping.signal);
  if (answer.leases.length > 0 || !answer.suspects_wait) return answer;
  // A job that was in two crashes is only given to who runs nothing else, as this one does now.
  return call<Claimed>("claims", { ...wish, alone: true });
}

const worker = { id: randomUUID(), host: WORKER_NAME, slots: 10 };
say(`claims from ${QUEUE}`);
let nonce = newNonce();
while (!stopping.signal.aborted) {
  let claimed: Claimed;
  try {
    claimed = await claim(nonce);
  } catch (error) {
    if (stopping.signal.aborted) break;
    if (!(error instanceof Unanswered)) throw error;
    say(`claim failed, trying again: ${error.message}`);
    await sleep(1000);
    continue;
  }
  nonce = newNonce();
  const sent = performance.now() - claimed.took_us / 1000;
  for (const lease of claimed.leases) await run(lease, claimed.now, sent);
}
