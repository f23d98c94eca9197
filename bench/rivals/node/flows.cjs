// A flow of BullMQ: one parent that waits for many children. See bench/rivals/python/flow_side.py.
'use strict';

const { FlowProducer, Queue, Worker } = require('bullmq');

const CHILDREN = 'bench-steps';
const PARENTS = 'bench-callbacks';
const connection = { host: '127.0.0.1', port: Number(process.env.REDIS_PORT) };
const opts = { removeOnComplete: true };
const steps = Number(process.argv[2]);

async function main() {
  let callbacks = 0;
  let ended;
  const end = new Promise((done) => (ended = done));
  const started = performance.now();
  const producer = new FlowProducer({ connection });
  const children = Array.from({ length: steps }, (_, nth) => ({
    name: 'step', queueName: CHILDREN, data: { nth }, opts,
  }));
  await producer.add({ name: 'callback', queueName: PARENTS, data: {}, opts, children });
  const sent = performance.now();
  const parents = new Worker(PARENTS, async () => void (callbacks += 1), { connection });
  parents.on('completed', ended);
  const workers = [parents, new Worker(CHILDREN, async () => {}, { connection, concurrency: 200 })];
  await end;
  const seconds = (performance.now() - started) / 1_000;
  const queue = new Queue(CHILDREN, { connection });
  const counts = await queue.getJobCounts('wait', 'active', 'waiting-children', 'failed');
  const stalled = Object.values(counts).reduce((sum, count) => sum + count, 0);
  await Promise.all(workers.map((worker) => worker.close()));
  console.log(JSON.stringify({ seconds, sent_seconds: (sent - started) / 1_000, callbacks, stalled }));
  process.exit(0);
}

main();
