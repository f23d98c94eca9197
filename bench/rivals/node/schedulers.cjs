// Job schedulers of BullMQ that are all due at one instant: how late their runs start. See
// bench/rivals/python/limit_side.py.
'use strict';

const { Queue, Worker } = require('bullmq');

const QUEUE = 'bench';
const connection = { host: '127.0.0.1', port: Number(process.env.REDIS_PORT) };
const schedulers = Number(process.argv[2]);
// Schedulers that are written at a time, and the time until they are due.
const AT_ONCE = 200;
const WRITE_MS = 2;
const now = () => performance.timeOrigin + performance.now();

async function each(call) {
  for (let from = 0; from < schedulers; from += AT_ONCE) {
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, schedulers - from) }, (_, nth) => call(`bench-${from + nth}`)));
  }
}

async function main() {
  const queue = new Queue(QUEUE, { connection });
  const due = Math.ceil((now() + 3_000 + WRITE_MS * schedulers) / 1_000) * 1_000;
  const at = new Date(due);
  const pattern = `${at.getUTCSeconds()} ${at.getUTCMinutes()} ${at.getUTCHours()} * * *`;
  const began = now();
  await each((name) => queue.upsertJobScheduler(name, { pattern, tz: 'UTC' }, { name: 'noop', data: {}, opts: { removeOnComplete: true } }));
  const written = now();
  if (written >= due) throw new Error('writing the schedulers took longer than until they were due');
  const late = [];
  await new Promise((done) => {
    const start = async () => {
      late.push(now() - due);
      if (late.length === schedulers) done();
    };
    new Worker(QUEUE, start, { connection, concurrency: 1_000 });
  });
  late.sort((a, b) => a - b);
  const ms = (span) => Math.round(span * 10) / 10;
  const answer = { schedules: schedulers, p99_ms: ms(late[Math.floor(late.length * 0.99)]), last_ms: ms(late[late.length - 1]), write_ms: ms(written - began) };
  await each((name) => queue.removeJobScheduler(name));
  console.log(JSON.stringify(answer));
  process.exit(0);
}

main();
