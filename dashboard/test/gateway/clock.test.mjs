// What the overview shows of time: charts, what falls due, workers. The test moves the clock,
// nothing waits for it.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch } from "../browser.mjs";
import { serve, stopAll, visit } from "./serve.mjs";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** Between two readings of the past lie fifteen seconds of the browser. */
const PAST_MS_MAX = 40_000;

let browser;
let gateway;
let now = Date.parse("2026-11-21T10:00:00Z");
const pass = (ms) => {
  now += ms;
  return gateway.call("POST", "test-clock", { now: new Date(now).toISOString() });
};
before(async () => {
  browser = await launch();
  gateway = await serve({ args: ["--test-clock"] });
  await pass(0);
});
after(async () => {
  await browser?.close();
  await stopAll();
});

const work = async (queue, count, lateness, end = { outcome: "completed" }) => {
  await gateway.enqueue(Array.from({ length: count }, (_, n) => ({ queue, payload: { n } })));
  return gateway.settle(await gateway.claim(queue, { limit: count }), end, lateness);
};
const figure = (page, label) => page.locator(`figure[aria-label="${label}"]`);
/** The value that the caption of a chart shows last of a line. */
const shown = async (page, label, line) => (await figure(page, label).locator("figcaption span", { hasText: line }).locator("b").innerText()).trim();
/** How many points of a chart have the colour of that name. */
const drawn = (page, label, colour) =>
  figure(page, label).locator("canvas").evaluate((canvas, name) => {
    const probe = document.createElement("canvas").getContext("2d");
    probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    probe.fillRect(0, 0, 1, 1);
    const wanted = probe.getImageData(0, 0, 1, 1).data;
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let count = 0;
    for (let at = 0; at < data.length; at += 4) if (data[at + 3] > 200 && [0, 1, 2].every((part) => Math.abs(data[at + part] - wanted[part]) < 12)) count += 1;
    return count;
  }, colour);

test("the charts get points while jobs run: throughput, and lateness at p50 and p99", async () => {
  await visit(browser, gateway, "#/", async (page) => {
    await page.waitForSelector(".charts");
    await page.getByText("nothing in this time").first().waitFor();
    await page.evaluate(() => (window.sameDocument = true));
    await work("mail", 90, [...Array(88).fill(800), 64_000, 64_000]);
    await work("mail", 10, Array(10).fill(800), { outcome: "dead", error: "550" });
    await pass(MINUTE);
    await figure(page, "Lateness").locator("canvas").waitFor({ timeout: PAST_MS_MAX });
    const history = (await gateway.call("GET", "stats?total=true&minutes=60")).total.history.at(-1);
    assert.deepEqual([history.completed, history.dead], [90, 10]);
    const inMs = async (line) => {
      const [, value, unit] = /^([\d.]+) (µs|ms|s)$/.exec(await shown(page, "Lateness", line));
      return Number(value) * { "µs": 1e-3, ms: 1, s: 1e3 }[unit];
    };
    for (const name of ["p50", "p99"]) {
      const exact = history.lateness_us[name] / 1_000;
      assert.ok(Math.abs((await inMs(name)) - exact) <= 0.06 * exact, `${name} is ${exact} ms and shown as ${await inMs(name)}`);
    }
    assert.ok((await inMs("p99")) > 40 && (await inMs("p50")) < 1, "two of a hundred were late");
    assert.equal(await shown(page, "Jobs a minute", "completed"), "90");
    assert.equal(await shown(page, "Jobs a minute", "dead"), "10");
    // One minute alone is a point, no line: it must be seen all the same.
    for (const colour of ["warn", "scheduled"]) assert.ok((await drawn(page, "Lateness", colour)) > 0, `${colour} is drawn`);
    // The next minute comes without a reload.
    await work("mail", 30, Array(30).fill(500));
    await pass(MINUTE);
    await page.waitForFunction(() => /completed\s*30/.test(document.querySelector('figure[aria-label="Jobs a minute"] figcaption').textContent), null, { timeout: PAST_MS_MAX });
    assert.ok(await page.evaluate(() => window.sameDocument));
  });
  await visit(browser, gateway, "#/queues/mail", async (page) => {
    for (const label of ["Lateness", "Jobs a minute", "Run time"]) await figure(page, label).locator("canvas").waitFor();
    assert.equal(await shown(page, "Jobs a minute", "completed"), "30");
  });
});

test("what falls due is shown for ten minutes, an hour, a day and a month, and leads to those jobs", async () => {
  const ahead = { a: 5 * MINUTE + 30_000, b: 35 * MINUTE, c: 5 * HOUR + 30 * MINUTE, d: 3 * DAY + 12 * HOUR, e: 20 * DAY + 12 * HOUR, f: 60 * DAY };
  await gateway.enqueue(Object.entries(ahead).map(([kind, span]) => ({ queue: "due", kind, payload: {}, at: new Date(now + span).toISOString() })));
  // How far each reads, and in how many bars its jobs lie: some share an hour or a day.
  const until = { "10 min": [10 * MINUTE, 1], hour: [HOUR, 2], day: [DAY, 2], month: [30 * DAY, 3] };
  for (const path of ["#/", "#/queues/due"]) {
    await visit(browser, gateway, path, async (page) => {
      const panel = page.locator(".charts .panel", { hasText: "Falls due" });
      for (const [name, [span, bars]] of Object.entries(until)) {
        await panel.getByRole("button", { name, exact: true }).click();
        const within = Object.values(ahead).filter((one) => one < span).length;
        await panel.getByText(`${within} job${within === 1 ? "" : "s"} · ${6 - within} job${within === 5 ? "" : "s"} later than that`).waitFor();
        assert.equal(await panel.locator("a.slot").count(), bars, name);
      }
      await panel.getByRole("button", { name: "hour", exact: true }).click();
      await panel.locator("a.slot").nth(1).click();
      await page.waitForFunction(() => document.querySelectorAll(".joblist .job[data-id]").length === 1);
      assert.equal(await page.locator(".joblist .job .kind").last().innerText(), "b");
    });
  }
});

test("workers are shown with their load and what they run, and leave when they are not seen any more", async () => {
  const names = { "app-1": "0f1e7c3e-8a51-4c3e-8000-3f0f4c1d2b70", "app-2": "0f1e7c3e-8a51-4c3e-8000-3f0f4c1d2b71" };
  const { receipts } = await gateway.enqueue([1, 2, 3].map((n) => ({ queue: "runs", kind: "runs.long", payload: { n } })));
  const claim = (host, limit, busy) => gateway.claim("runs", { limit, lease_duration: "10m", worker: { id: names[host], host, version: "4.2.1", kinds: ["runs.long"], slots: 8, busy } });
  const leases = [await claim("app-1", 2, 2), await claim("app-2", 1, 1)];
  await visit(browser, gateway, "#/workers", async (page) => {
    const row = (host) => page.locator(".workers [role=rowgroup]", { hasText: host });
    for (const [host, load, nth] of [["app-1", "2/8", 0], ["app-2", "1/8", 1]]) {
      await row(host).getByText(load).waitFor();
      await row(host).getByRole("button", { name: host }).click();
      const ids = leases[nth].jobs.map((job) => job.id);
      await page.waitForFunction((n) => document.querySelectorAll(".running a.id").length === n, ids.length);
      const links = await page.locator(".running a.id").evaluateAll((all) => all.map((one) => one.getAttribute("href").split("/").pop()));
      assert.deepEqual(links.sort(), ids.sort());
    }
    // What ends is seen to end.
    await gateway.settle(leases[1], { outcome: "completed" });
    await page.getByText("Nothing runs.").waitFor();
    await pass(2 * MINUTE);
    await page.getByText("No worker claimed in the last minute.").waitFor({ timeout: PAST_MS_MAX });
  });
  assert.equal(receipts.length, 3);
});
