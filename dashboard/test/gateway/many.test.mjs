// A thousand queues, a hundred thousand jobs, and the bytes of the page, on the real gateway.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch } from "../browser.mjs";
import { fill, paint } from "../paint.mjs";
import { serve, stopAll, visit } from "./serve.mjs";

const QUEUES = 1_000;
const JOBS = 100_000;
const PAGE_BYTES_MAX = 150_000;

let browser;
before(async () => (browser = await launch()));
after(async () => {
  await browser?.close();
  await stopAll();
});

test("a thousand queues are counted, found and sorted, and only those in sight are drawn", async () => {
  const gateway = await serve();
  await fill(gateway, QUEUES);
  await gateway.enqueue([1, 2, 3].map((n) => ({ queue: "queue-977", payload: { n } })));
  await visit(browser, gateway, "#/", async (page) => {
    await page.waitForSelector(".queue-row[data-queue]");
    assert.equal(await page.locator(".queues [role=table]").getAttribute("aria-rowcount"), String(QUEUES));
    assert.equal(await page.locator(".total[data-state=scheduled] b").innerText(), "1,000");
    assert.ok((await page.locator(".queue-row[data-queue]").count()) < 80);
    const first = () => page.locator(".queue-row[data-queue]").first().getAttribute("data-queue");
    await page.getByRole("columnheader", { name: /^ready/ }).getByRole("button").click();
    assert.equal(await first(), "queue-977");
    await page.getByRole("columnheader", { name: /^queue/ }).getByRole("button").click();
    assert.equal(await first(), "queue-0");
    await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
    await page.waitForSelector('.queue-row[data-queue="queue-999"]');
    await page.evaluate(() => scrollTo(0, 0));
    await page.fill(".queues input[type=search]", "queue-97");
    await page.waitForFunction(() => document.querySelectorAll(".queue-row[data-queue]").length === 11);
    // One of them changes: the row follows.
    await gateway.enqueue({ queue: "queue-971", payload: {} });
    await page.waitForFunction(() => document.querySelector(".queue-row[data-queue='queue-971'] .s-ready")?.textContent === "1");
    await page.locator(".queues").getByRole("link", { name: "queue-977", exact: true }).click();
    await page.getByRole("heading", { name: "queue-977" }).waitFor();
  });
  // The jobs of a state are those of all queues.
  await visit(browser, gateway, "#/jobs?state=ready", async (page) => {
    await page.waitForFunction(() => document.querySelectorAll(".joblist .job[data-id]").length === 4);
  });
  const { compressed_bytes: bytes, ...times } = await paint(browser, gateway, 3);
  // Times are of this machine and what else it does: printed, not judged.
  console.log(`${bytes} bytes; ${JSON.stringify(times)}`);
  assert.ok(bytes > 10_000 && bytes < PAGE_BYTES_MAX, `the page is ${bytes} bytes compressed`);
  await gateway.stop();
});

test("a hundred thousand jobs scroll to their end, and only those in sight are drawn", async () => {
  const gateway = await serve();
  const id = (n) => `00000000-0000-7000-8000-${n.toString(16).padStart(12, "0")}`;
  const lines = Array.from({ length: JOBS }, (_, n) => `{"id":"${id(n)}","queue":"orders","kind":"orders.cancel","payload":{"order":${n}},"delay":"${3_600 + n}s"}`);
  assert.equal(await gateway.bulk(lines), JOBS);
  await visit(browser, gateway, "#/queues/orders/scheduled", async (page) => {
    page.setDefaultTimeout(120_000);
    const firstRow = page.locator(".joblist .job[data-id]").first();
    await firstRow.waitFor();
    assert.equal(await firstRow.getAttribute("data-id"), id(0), "the first due comes first");
    assert.ok(Number(await page.locator(".joblist").getAttribute("data-loaded")) <= 2_000, "no more is read than a user scrolls to");
    await page.getByText("100,000 jobs").first().waitFor();
    // A user who holds the scroll bar at the end sees page after page come.
    await page.evaluate(() => setInterval(() => scrollTo(0, document.body.scrollHeight), 20));
    await page.waitForFunction((n) => Number(document.querySelector(".joblist").dataset.loaded) === n, JOBS);
    await page.waitForSelector(`.job[data-id="${id(JOBS - 1)}"]`);
    assert.ok((await page.locator(".joblist .job[data-id]").count()) < 80);
    assert.ok((await page.evaluate(() => document.querySelectorAll("*").length)) < 3_000);
  });
  // A search that reads each of them says how far it is, and stops on request.
  await visit(browser, gateway, "#/jobs?text=nothing-has-this", async (page) => {
    page.setDefaultTimeout(120_000);
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByRole("button", { name: "Go on" }).waitFor();
    const examined = Number((await page.locator(".listbar .dim").first().innerText()).replace(/\D/g, ""));
    assert.ok(examined > 0 && examined < JOBS, `${examined} examined`);
    await page.getByRole("button", { name: "Go on" }).click();
    await page.getByText("100,000 examined").waitFor();
  });
  // All of them are delayed by one edit, counted first.
  await visit(browser, gateway, "#/queues/orders/scheduled", async (page) => {
    page.setDefaultTimeout(120_000);
    await page.locator(".job[data-id] input").first().click();
    await page.getByRole("button", { name: "all that match (100,000)" }).click();
    await page.locator("[data-action=cancel]").click();
    await page.waitForSelector("dialog .big[data-changed='100000']");
    assert.equal((await gateway.counts("orders")).scheduled, JOBS, "a dry run changes nothing");
    await page.getByRole("button", { name: "Cancel 100,000 jobs" }).click();
    await page.locator("dialog").waitFor({ state: "detached" });
    assert.equal((await gateway.counts("orders")).scheduled, 0);
  });
  await gateway.stop();
});
