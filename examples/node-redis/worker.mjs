#!/usr/bin/env node
// A Punctual worker with nothing but the npm package `redis`.
//
// It claims a lease of jobs, runs them beside each other, extends the lease meanwhile, settles each
// job as it ends and keeps the rest, and stops at once when the lease is lost. See README.md beside
// this file.

import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "redis";

const {
  REDIS_URL = "redis://127.0.0.1:6379",
  PUNCTUAL_KEY = "punctual:{default/0}",
  QUEUE = "files",
  LEASE_MS = "10000",
  JOB_SECONDS = "20",
  WORKER_NAME = `${hostname()}-${process.pid}`,
} = process.env;

const say = (text) => console.log(`${WORKER_NAME}: ${text}`);
const connect = async () => {
  // Calls made while the server is away fail at once, and are tried again here.
  const client = createClient({ url: REDIS_URL, disableOfflineQueue: true });
  client.on("error", (error) => say(`redis: ${error.message}`));
  return client.connect();
};
const server = await connect();
const ear = await connect();

/** One function by hand: words in, one line of JSON out; throws what the server refuses. */
async function call(name, ...words) {
  const answered = new AbortController();
  const silence = sleep(5000, undefined, { signal: answered.signal }).then(
    () => { throw new Error("the server did not answer within 5 s"); },
    () => {},
  );
  const answer = server.sendCommand(["FCALL", `punctual_1_${name}`, "1", PUNCTUAL_KEY, ...words]);
  try {
    return JSON.parse(await Promise.race([answer, silence]));
  } finally {
    answered.abort();
    answer.catch(() => {}); // it may still fail, when nothing waits for it any more
  }
}

/** The work itself. Ends early when `lost` is aborted: then another worker runs the job. */
async function handle(job, lost) {
  const seconds = job.payload?.seconds ?? Number(JOB_SECONDS);
  await sleep(seconds * 1000, undefined, { signal: lost });
  return { by: WORKER_NAME, seconds };
}

/** Extends a lease at a third of its duration until it is done, or lost. */
async function keep(token, done, lost) {
  while (!done.aborted) {
    await sleep(LEASE_MS / 3, undefined, { signal: done }).catch(() => {});
    if (done.aborted) return;
    try {
      const answer = await call("extend", token, "LEASE_MS", LEASE_MS);
      if (answer.verdict === "lease_lost") return lost.abort();
    } catch (error) {
      say(`extend failed, trying again: ${error.message}`);
    }
  }
}

/** Settles one job of the lease, the others stay in it; whether that counted. */
async function settle(token, job, lost, ...outcome) {
  let giveUpAt;
  while (!lost.aborted) {
    try {
      const [answer] = (await call("settle", token, job.id, ...outcome)).jobs;
      say(`settled ${job.id} ${outcome[0]}: ${answer.verdict}`);
      return answer.verdict !== "lease_lost";
    } catch (error) {
      // The words are wrong: its lease will end, and it runs again.
      if (error.message.startsWith("PUNCTUAL ")) {
        say(`settle of ${job.id} refused: ${error.message}`);
        return false;
      }
      if (stopping) { // a worker that is asked to end waits for its server for one lease
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

/** Runs a job and settles it; whether that counted. */
async function runOne(token, job, lost) {
  say(`started ${job.id} attempt ${job.attempt}`);
  let outcome;
  try {
    outcome = ["completed", "RESULT", JSON.stringify(await handle(job, lost))];
  } catch (error) {
    // The job's own failure: another attempt, by its retry policy.
    outcome = ["retry", "ERROR", String(error).slice(0, 2000)];
  }
  return settle(token, job, lost, ...outcome);
}

/** Runs the jobs of a lease beside each other. */
async function run({ token, jobs }) {
  const done = new AbortController();
  const lost = new AbortController();
  const extender = keep(token, done.signal, lost);
  const counted = await Promise.all(jobs.map((job) => runOne(token, job, lost.signal)));
  if (counted.includes(false)) say("lease lost: another worker has the jobs of this lease");
  done.abort();
  await extender;
}

let wake; // set while this worker waits: ends that, with whether a wakeup came
let listening = false;
let stopping = false;
process.on("SIGTERM", () => {
  stopping = true;
  wake?.(false);
});

/** Receives the queue's wakeup once. One that comes while busy is put back for another worker. */
async function listen() {
  if (listening) return;
  listening = true;
  const key = `${PUNCTUAL_KEY}:d:${QUEUE}`;
  try {
    await ear.sendCommand(["BZPOPMIN", key, "0"]);
    if (wake) wake(true);
    else await ear.sendCommand(["ZADD", key, "0", "1"]);
  } catch (error) {
    say(`cannot listen: ${error.message}; claiming goes on`);
  }
  listening = false;
}

/** Waits until `wake_at`, or the wakeup; five seconds at most, should a wakeup be lost. */
function waitForWork(wakeInMs = 5000) {
  return new Promise((resolve) => {
    const timer = setTimeout(() => wake(false), Math.min(wakeInMs, 5000));
    wake = (woken) => {
      clearTimeout(timer);
      wake = undefined;
      resolve(woken);
    };
    listen();
  });
}

say(`claims from ${QUEUE}`);
let nonce = randomUUID();
let woken = false;
let alone = false;
while (!stopping) {
  let lease;
  try {
    const words = ["LIMIT", "10", "LEASE_MS", LEASE_MS, "WORKER", WORKER_NAME, "NONCE", nonce];
    // Nothing runs between two leases, so a suspect may come: a job that crashed twice.
    lease = await call("claim", QUEUE, ...words, ...(woken ? ["WOKEN"] : []), ...(alone ? ["ALONE"] : []));
  } catch (error) {
    say(`claim failed, trying again: ${error.message}`);
    await sleep(1000);
    continue; // with the same nonce: if the lease was opened, it is answered again
  }
  nonce = randomUUID();
  woken = false;
  alone = Boolean(lease.suspects_wait) && !alone;
  if (lease.jobs.length > 0) await run(lease);
  else if (!alone) woken = await waitForWork(lease.wake_in_ms);
}
process.exit(0);
