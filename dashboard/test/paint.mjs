// First paint of the overview on the real gateway, and the bytes of the page:
// `PUNCTUAL=/path/to/punctual node test/paint.mjs`. Medians of nine, each with nothing kept.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { launch } from "./browser.mjs";

const TOKEN = "dashboard-paint-token-0123";
const gateway = spawn(process.env.PUNCTUAL, ["serve", "--engine", "memory:", "--listen", "127.0.0.1:0", "-o", "json"], { env: { ...process.env, PUNCTUAL_TOKEN: TOKEN } });
const [line] = await once(gateway.stdout, "data");
const { url } = JSON.parse(String(line));
const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
for (let from = 0; from < 1_000; from += 500) {
  const jobs = Array.from({ length: 500 }, (_, n) => ({ queue: `queue-${from + n}`, payload: { n }, delay: "1h" }));
  await fetch(`${url}/v1/jobs`, { method: "POST", headers, body: JSON.stringify(jobs) });
}
const browser = await launch();
const paints = [];
const useful = [];
let bytes = 0;
for (let run = 0; run < 9; run += 1) {
  const page = await browser.context.newPage();
  const session = await browser.context.newCDPSession(page);
  await session.send("Network.enable");
  await session.send("Network.setCacheDisabled", { cacheDisabled: true });
  const files = new Set();
  let received = 0;
  session.on("Network.responseReceived", ({ requestId, response }) => /\/v1\//.test(response.url) || files.add(requestId));
  session.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => files.has(requestId) && (received += encodedDataLength));
  await page.addInitScript((text) => sessionStorage.setItem("punctual.token", text), TOKEN);
  await page.goto(`${url}/#/`);
  await page.waitForSelector("[data-queue]");
  useful.push(await page.evaluate(() => performance.now()));
  paints.push(await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? NaN));
  bytes = received;
  await page.close();
}
await browser.close();
gateway.kill("SIGTERM");
const median = (values) => Math.round(values.sort((a, b) => a - b)[values.length >> 1]);
console.log(JSON.stringify({ first_paint_ms: median(paints), a_thousand_queues_shown_ms: median(useful), compressed_bytes: bytes }));
