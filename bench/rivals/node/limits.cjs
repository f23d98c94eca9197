// The limiter of BullMQ: `max` starts in `duration`, over several worker processes of which some
// are killed in the middle. See bench/rivals/python/limit_side.py.
'use strict';

const { fork } = require('node:child_process');
const { Queue, Worker } = require('bullmq');

const QUEUE = 'bench';
const SLOTS = 256;
// As long as a lease of `punctual bench limits`, so that jobs of a killed worker come again.
const LOCK_MS = 2_000;
const GIVES_UP_MS = 60_000;
const connection = { host: '127.0.0.1', port: Number(process.env.REDIS_PORT) };
const [max, duration, jobs, workers, killed] = process.argv.slice(2).map(Number);
const now = () => performance.timeOrigin + performance.now();

// One worker process: each start goes to the parent, by the clock of this machine, which is the
// server's, too: when the job was moved to active, and when its handler began.
function work() {
  const start = async (job) => {
    process.send([job.id, job.processedOn, now()]);
    await new Promise((done) => setTimeout(done, 1));
  };
  const options = { connection, concurrency: SLOTS, limiter: { max, duration }, lockDuration: LOCK_MS, stalledInterval: 1_000, maxStalledCount: 10 };
  new Worker(QUEUE, start, options).on('error', () => {});
}

// The most starts in any span of that length, over all pairs.
function worstWindow(starts) {
  let [first, worst] = [0, 0];
  for (let last = 0; last < starts.length; last++) {
    while (starts[last] - starts[first] >= duration) first++;
    worst = Math.max(worst, last - first + 1);
  }
  return worst;
}

// Starts after the first window, of as many as the whole windows after it allow.
function used(starts) {
  const from = starts[0] + duration;
  const windows = Math.floor((starts[starts.length - 1] - from) / duration);
  if (windows < 10) return null;
  const within = starts.filter((at) => at >= from && at < from + windows * duration).length;
  return Math.round((within / (max * windows)) * 10_000) / 10_000;
}

async function main() {
  const queue = new Queue(QUEUE, { connection });
  for (let sent = 0; sent < jobs; sent += 1_000) {
    await queue.addBulk(Array.from({ length: Math.min(1_000, jobs - sent) }, () => ({ name: 'noop', data: {}, opts: { removeOnComplete: true } })));
  }
  const [moved, began, seen] = [[], [], new Set()];
  let latest = Date.now();
  const children = Array.from({ length: workers }, () => fork(__filename, process.argv.slice(2), { env: { ...process.env, WORKER: '1' } }));
  let left = killed;
  await new Promise((done) => {
    const check = setInterval(() => {
      if (seen.size < jobs && Date.now() - latest < GIVES_UP_MS) return;
      clearInterval(check);
      done();
    }, 20);
    for (const child of children) {
      child.on('message', ([id, at, start]) => {
        latest = Date.now();
        seen.add(id);
        moved.push(at);
        began.push(start);
        if (seen.size * 2 >= jobs) for (; left > 0; left--) children[left - 1].kill('SIGKILL');
      });
    }
  });
  for (const child of children) child.kill('SIGKILL');
  for (const starts of [moved, began]) starts.sort((a, b) => a - b);
  const answer = { worst_window: worstWindow(moved), used: used(moved), worst_window_of_handlers: worstWindow(began), started: seen.size };
  console.log(JSON.stringify(answer));
  process.exit(0);
}

if (process.env.WORKER) work();
else main();
