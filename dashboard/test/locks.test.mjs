// The holder and the waiters of a lock, in a real browser against the stand-in for the gateway.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { start, stopAll } from "../dev/server.mjs";
import { launch, open } from "./browser.mjs";

const ID = "01994f2e-8a51-7c3e-8000-3f0f4c1d2b7";
let browser;
let gateway;
before(async () => {
  browser = await launch();
  gateway = await start({ jobs: 0, queues: 1, live: false });
  const { queues, counts } = gateway.engine;
  queues.set("lock:deploy", { ...[...queues.values()][0], queue: "lock:deploy", paused: false });
  counts.set("lock:deploy", Object.fromEntries([...counts.values()].flatMap((one) => Object.keys(one)).map((state) => [state, 0])));
});
after(async () => {
  await browser?.close();
  await stopAll();
});

for (const language of ["en", "zh"]) {
  test(`the page of a lock's queue shows its holder and who waits in ${language}`, async () => {
    const now = new Date().toISOString();
    const waiters = [{ host: "web-1", job: `${ID}c`, seen_at: now }, { host: "<b>web-2</b>", seen_at: now }];
    gateway.engine.locks = [{ name: "deploy", holder: { ticket: `${ID}a`, job: `${ID}b`, since: now, until: now }, waiters }];
    const init = `localStorage.setItem("punctual.language", "${language}")`;
    const { page, complaints } = await open(browser, gateway.url, { path: "#/queues/lock%3Adeploy", width: 390, height: 844, init });
    try {
      await page.waitForSelector(".lock-waiters li:nth-child(2)");
      const hrefs = await page.locator(".lock a.id").evaluateAll((all) => all.map((one) => one.getAttribute("href")));
      assert.deepEqual(hrefs, [`#/jobs/${ID}b`, `#/jobs/${ID}a`, `#/jobs/${ID}c`]);
      assert.match(await page.locator(".lock-waiters").innerText(), /<b>web-2<\/b>/);
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth), 0, "pixels wider than the phone");
      gateway.engine.locks = [];
      await page.waitForSelector(".lock-waiters", { state: "detached" });
      assert.deepEqual(complaints, [], "errors, or what the policy refused");
    } finally {
      await page.close();
    }
  });
}
