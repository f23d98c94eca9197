// Writes jobs of BullMQ in every state. npm i bullmq ioredis; node bullmq.mjs PORT [MORE]
import { Queue, Worker, FlowProducer } from "bullmq";
const port = Number(process.argv[2]); const many = Number(process.argv[3] ?? 0);
const connection = { host: "127.0.0.1", port };
const q = new Queue("mail", { connection });
await q.waitUntilReady();
const w = new Worker("mail", async (job) => {
  if (job.name === "boom") throw new Error("smtp refused");
  if (job.name === "once" && job.attemptsMade === 0) throw new Error("first try");
  if (job.name === "stuck") await new Promise(() => {});
  return { sent: true };
}, { connection, concurrency: 1 });
await q.add("done", { n: 1 });
await q.add("boom", { n: 2 }, { attempts: 1 });
await q.add("once", { n: 3 }, { attempts: 5, backoff: { type: "exponential", delay: 3600000 } });
const wait = async (f) => { while (!(await f())) await new Promise((r) => setTimeout(r, 20)); };
await wait(async () => (await q.getFailedCount()) === 1 && (await q.getDelayedCount()) === 1 && (await q.getCompletedCount()) === 1);
await q.add("stuck", { n: 4 });
await wait(async () => (await q.getActiveCount()) === 1);
await q.add("send", { to: "ann", big: 9007199254740993n.toString() });
await q.add("send", { to: "bob" }, { jobId: "order-7", attempts: 3, backoff: 5000 });
await q.add("send", { to: "cat" }, { priority: 3 });
await q.add("send", { to: "dan" }, { priority: 3 });
await q.add("send", { to: "eve" }, { delay: 30 * 86400000 });
await q.add("send", { to: "fay" }, { lifo: true });
await q.add("send", "héllo 漢字 \u0000");
for (let from = 0; from < many; from += 1000) {
  await q.addBulk(Array.from({ length: Math.min(1000, many - from) }, (_, i) => {
    const n = from + i;
    return { name: "bulk", data: { n }, opts: n % 4 === 0 ? { delay: 60000 + n } : n % 4 === 1 ? { priority: 1 + (n % 7) } : {} };
  }));
}
const flow = new FlowProducer({ connection });
await flow.add({ name: "parent", queueName: "mail", data: { p: 1 }, children: [{ name: "child", queueName: "mail", data: { c: 1 } }] });
await q.upsertJobScheduler("nightly", { pattern: "0 3 * * *" }, { name: "cleanup", data: { deep: true } });
process.exit(0);
