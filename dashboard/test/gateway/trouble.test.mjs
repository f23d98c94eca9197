// What is wrong, as the page says it, and what becomes of it, on the real gateway.
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launch } from "../browser.mjs";
import { serve, stopAll, total, visit } from "./serve.mjs";

/** The browser itself complains of what cannot be reached. */
const AWAY = /ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|ERR_SOCKET_NOT_CONNECTED|WebSocket/;
/** Between two tries of the page to receive changes, and between two readings. */
const BACK_MS_MAX = 40_000;

let browser;
before(async () => (browser = await launch()));
after(async () => {
  await browser?.close();
  await stopAll();
});

test("what is wrong stands first and says what helps, until it is over", async () => {
  const gateway = await serve({ args: ["--test-clock"] });
  const start = Date.parse("2026-11-21T10:00:00Z");
  const at = (ms) => gateway.call("POST", "test-clock", { now: new Date(start + ms).toISOString() });
  await at(0);
  await gateway.enqueue(["lonely", "rests"].map((queue) => ({ queue, payload: {} })));
  await gateway.call("POST", "queues/pause", { queue: "rests" });
  await at(20_000);
  await visit(browser, gateway, "#/", async (page) => {
    const bad = page.locator(".verdict li.bad");
    await bad.first().waitFor();
    assert.match(await page.locator(".verdict li").first().innerText(), /lonely\s+1 job due, the oldest for 20 s; no worker claims from this queue/);
    assert.equal(await bad.locator("code").innerText(), "punctual work lonely --exec CMD");
    assert.match(await page.locator(".verdict li.warn").innerText(), /rests\s+paused while 1 job waits/);
    await bad.locator("a.queue").click();
    await page.waitForSelector(".joblist .job[data-id]");
    await page.goBack();
    await gateway.settle(await gateway.claim("lonely"), { outcome: "completed" });
    await gateway.call("POST", "queues/resume", { queue: "rests" });
    await gateway.settle(await gateway.claim("rests"), { outcome: "completed" });
    await page.locator(".verdict.ok").waitFor();
  });
  await gateway.stop();
});

test("a gateway that is gone is reported first, and what came meanwhile is there when it is back", async () => {
  const folder = await mkdtemp(join(tmpdir(), "punctual-back-"));
  const engine = `file:${folder}`;
  const first = await serve({ engine });
  await first.enqueue({ queue: "mail", payload: {} });
  await visit(browser, first, "#/", async (page) => {
    await total(page, "ready", 1);
    await page.evaluate(() => (window.sameDocument = true));
    await first.stop();
    await page.waitForSelector(".live.down", { timeout: BACK_MS_MAX });
    await page.waitForFunction(() => /has not answered/.test(document.querySelector(".verdict li")?.textContent ?? ""));
    assert.equal(await page.locator(".total[data-state=ready] b").innerText(), "1", "what was read stays");
    const second = await serve({ engine, listen: new URL(first.url).host });
    await second.enqueue({ queue: "mail", payload: {} });
    await page.waitForSelector(".live[data-live=live]", { timeout: BACK_MS_MAX });
    await total(page, "ready", 2);
    assert.ok(!/has not answered/.test(await page.locator(".verdict").innerText()));
    // And goes on to receive changes.
    await second.enqueue({ queue: "mail", payload: {} });
    await total(page, "ready", 3);
    assert.ok(await page.evaluate(() => window.sameDocument));
    await second.stop();
  }, { allow: AWAY });
  await rm(folder, { recursive: true, force: true });
});

test("a copy has what no field shows, and a payload that is no JSON too", async () => {
  const gateway = await serve();
  const sent = {
    queue: "mail", kind: "mail.raw", delay: "1h", payload_base64: "AP+AQQ==", content_type: "application/octet-stream",
    headers: { traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" }, retry: { policy: "fixed", span: "7s", jitter: false },
  };
  const { id } = await gateway.enqueue(sent);
  const job = await gateway.job(id);
  await visit(browser, gateway, `#/jobs/${id}`, async (page) => {
    await page.locator(".actions a.button").click();
    await page.waitForFunction(() => document.querySelector(".enqueue")?.innerText.includes("byte for byte"));
    await page.getByRole("button", { name: "Enqueue", exact: true }).click();
    await page.waitForSelector("[data-verdict=created]");
    const { jobs } = await gateway.call("GET", "jobs?queue=mail");
    const copy = await gateway.job(jobs.find((one) => one.id !== id).id);
    for (const name of ["kind", "payload_base64", "content_type", "headers", "retry"]) assert.deepEqual(copy[name], job[name], name);
    assert.equal(copy.payload_base64, sent.payload_base64);
  });
  await gateway.stop();
});
