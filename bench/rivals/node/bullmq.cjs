// BullMQ, with the settings that it recommends for throughput: see bench/redis.md.
'use strict';

const { Queue, Worker } = require('bullmq');

const QUEUE = 'bench';
const AHEAD_MS = 1_300;
const SLICES_PER_SECOND = 5;
const MONTH_MS = 30 * 24 * 3_600 * 1_000;
const connection = { host: '127.0.0.1', port: Number(process.env.REDIS_PORT) };
const payload = 'x'.repeat(100);
const [order, ...numbers] = process.argv.slice(2);

const now = () => performance.timeOrigin + performance.now();
const job = (data, delay) => ({ name: 'noop', data, opts: { removeOnComplete: true, delay } });
const sleep = (ms) => new Promise((done) => setTimeout(done, Math.max(0, ms)));

async function enqueue(queue, jobs, batch, callers) {
  let left = jobs;
  const call = async () => {
    while (left > 0) {
      const size = Math.min(batch, left);
      left -= size;
      if (size === 1) {
        await queue.add('noop', payload, { removeOnComplete: true });
      } else {
        await queue.addBulk(Array.from({ length: size }, () => job(payload)));
      }
    }
  };
  await Promise.all(Array.from({ length: callers }, call));
}

// Jobs of a kind, due as many ms ahead to twice as many; `order` cancels 70 of 100 by their key.
async function jobs(queue, kind, count, batch, callers, ahead) {
  const options = (nth) => ({
    removeOnComplete: kind === 'retention' ? { age: 5 } : true,
    delay: kind === 'scheduled' || kind === 'order' ? Math.ceil(ahead * (1 + Math.random())) : undefined,
    jobId: kind === 'unique' || kind === 'order' ? `k${nth}` : undefined,
    ...(kind === 'retry' ? { attempts: 2, backoff: { type: 'fixed', delay: 10 } } : {}),
  });
  const each = (total, call) => {
    let next = 0;
    const caller = async () => {
      while (next < total) {
        const from = next;
        next = Math.min(total, next + batch);
        await call(Array.from({ length: next - from }, (_, nth) => from + nth));
      }
    };
    return Promise.all(Array.from({ length: callers }, caller));
  };
  const add = (nth) => ({ name: kind, data: payload, opts: options(nth) });
  await each(count, (numbers) => queue.addBulk(numbers.map(add)));
  if (kind === 'order') {
    const cancelled = Array.from({ length: count }, (_, nth) => nth).filter((nth) => nth % 10 < 7);
    const remove = (nth) => queue.remove(`k${cancelled[nth]}`);
    await each(cancelled.length, (numbers) => Promise.all(numbers.map(remove)));
  }
}

async function schedule(queue, rate, seconds) {
  const slice = 1_000 / SLICES_PER_SECOND;
  const started = now();
  let sent = 0;
  for (let nth = 0; nth < seconds * SLICES_PER_SECOND; nth++) {
    const sendAt = started + nth * slice;
    await sleep(sendAt - now());
    const until = Math.floor((rate * (nth + 1)) / SLICES_PER_SECOND);
    const jobs = [];
    for (; sent < until; sent++) {
      const due = sendAt + AHEAD_MS + Math.random() * slice;
      // Delays are whole milliseconds; rounded up, so that none is early by our doing.
      jobs.push(job(String(Math.round(due * 1_000)), Math.ceil(due - Date.now())));
    }
    if (jobs.length > 0) await queue.addBulk(jobs);
  }
}

async function fill(queue, jobs) {
  for (let from = 0; from < jobs; from += 1_000) {
    const size = Math.min(1_000, jobs - from);
    const delay = (nth) => (nth % 2 ? Math.floor(Math.random() * MONTH_MS) : undefined);
    await queue.addBulk(Array.from({ length: size }, (_, nth) => job(payload, delay(nth))));
  }
}

function work() {
  let seen = { done: 0, first: 0, last: 0, late: [] };
  const handler = async ({ name, data, attemptsMade }) => {
    if (name === 'retry' && attemptsMade === 0) throw new Error('the first attempt fails');
    const at = Math.round(now() * 1_000);
    if (data !== payload) seen.late.push(at - Number(data));
    seen.first ||= at;
    seen.last = at;
    seen.done += 1;
  };
  const worker = new Worker(QUEUE, handler, { connection, concurrency: 200 });
  worker.waitUntilReady().then(() => console.log(JSON.stringify({ ready: true })));
  setInterval(() => {
    if (seen.done === 0) return;
    console.log(JSON.stringify(seen));
    seen = { done: 0, first: 0, last: 0, late: [] };
  }, 20);
  process.stdin.on('end', () => process.exit(0)).resume();
}

async function main() {
  if (order === 'work') return work();
  const queue = new Queue(QUEUE, { connection });
  await queue.waitUntilReady();
  const started = now();
  const words = numbers.map((word) => (Number.isNaN(Number(word)) ? word : Number(word)));
  await { enqueue, schedule, fill, job: jobs }[order](queue, ...words);
  console.log(JSON.stringify({ seconds: (now() - started) / 1_000 }));
  await queue.close();
}

main();
