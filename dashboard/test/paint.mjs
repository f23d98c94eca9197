// First paint of the overview, and the bytes of the page: of a gateway that is given, or alone on
// one with a thousand queues, `PUNCTUAL=/path/to/punctual npm run paint`. Medians, each with
// nothing kept.
import { pathToFileURL } from "node:url";
import { launch } from "./browser.mjs";
import { serve } from "./gateway/serve.mjs";

/** `bytes` is what came over the wire for the page's own files, heads included. */
export async function paint(browser, gateway, runs = 9) {
  const paints = [];
  const useful = [];
  let bytes = 0;
  for (let run = 0; run < runs; run += 1) {
    const page = await browser.context.newPage();
    const session = await browser.context.newCDPSession(page);
    await session.send("Network.enable");
    await session.send("Network.setCacheDisabled", { cacheDisabled: true });
    const files = new Set();
    let received = 0;
    session.on("Network.responseReceived", ({ requestId, response }) => /\/v1\//.test(response.url) || files.add(requestId));
    session.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => files.has(requestId) && (received += encodedDataLength));
    await page.addInitScript((text) => sessionStorage.setItem("punctual.token", text), gateway.token);
    await page.goto(`${gateway.url}#/`);
    await page.waitForSelector("[data-queue]");
    useful.push(await page.evaluate(() => performance.now()));
    paints.push(await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? NaN));
    bytes = received;
    await page.close();
  }
  const median = (values) => Math.round(values.sort((a, b) => a - b)[values.length >> 1]);
  return { first_paint_ms: median(paints), all_queues_shown_ms: median(useful), compressed_bytes: bytes };
}

/** A job in each of so many queues. */
export async function fill(gateway, queues) {
  for (let from = 0; from < queues; from += 500) {
    await gateway.enqueue(Array.from({ length: Math.min(500, queues - from) }, (_, n) => ({ queue: `queue-${from + n}`, payload: { n }, delay: "1h" })));
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const gateway = await serve();
  await fill(gateway, 1_000);
  const browser = await launch();
  console.log(JSON.stringify(await paint(browser, gateway)));
  await browser.close();
  await gateway.stop();
}
