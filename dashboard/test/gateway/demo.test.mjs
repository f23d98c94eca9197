// The demo, live in the browser while it runs, and `jobs list` beside it.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { launch } from "../browser.mjs";
import { program, run, stopAll, total, visit } from "./serve.mjs";

const ORDERS = 400;

let browser;
let folder;
before(async () => {
  browser = await launch();
  folder = await mkdtemp(join(tmpdir(), "punctual-demo-"));
});
after(async () => {
  await browser?.close();
  await stopAll();
  await rm(folder, { recursive: true, force: true });
});

const list = async () => {
  const { stdout } = await promisify(execFile)(program(), ["jobs", "list", "--all", "-o", "json", "--engine", `file:${join(folder, "jobs")}`, "--namespace", "demo"], { maxBuffer: 64 << 20 });
  return stdout.trim().split("\n").filter(Boolean).map((line) => JSON.parse(line));
};

test("the demo moves in the browser without a reload, and the command beside it prints the same", async () => {
  const orders = join(import.meta.dirname, "../../../examples/orders/orders.jsonl");
  const demo = run(["demo", "--dir", folder, "--input", orders, "--orders", String(ORDERS), "--speed", "120", "--stay"]);
  const [, address, token] = await demo.printed(/live on (http:\S+)\/#token=(\S+)/);
  await visit(browser, { url: `${address}/`, token: null }, `#token=${token}`, async (page) => {
    page.setDefaultTimeout(60_000);
    await page.evaluate(() => (window.sameDocument = true));
    const count = (state) => page.evaluate((name) => Number(document.querySelector(`.total[data-state=${name}] b`)?.textContent.replace(/\D/g, "")), state);
    const moves = (state, from) => page.waitForFunction(([name, old]) => Number(document.querySelector(`.total[data-state=${name}] b`)?.textContent.replace(/\D/g, "")) > old, [state, from]);
    // Orders are placed, paid, and given up, as it goes.
    await moves("scheduled", 0);
    await moves("cancelled", 0);
    await moves("completed", 0);
    await moves("completed", await count("completed"));
    await page.locator(".queue-row[data-queue=orders]").waitFor();
    await page.locator(".worker .fold").first().waitFor();
    const beside = await list();
    assert.ok(beside.length > 0);
    await demo.printed(/Every order ended paid or cancelled/);
    await total(page, "scheduled", 0);
    const ended = await list();
    const of = (state) => ended.filter((job) => job.state === state).length;
    assert.equal(ended.length, ORDERS);
    for (const state of ["completed", "cancelled"]) {
      assert.ok(of(state) > 0);
      await total(page, state, of(state));
    }
    // A job that the command named while it waited is on the page, as it ended.
    await page.evaluate((id) => (location.hash = `#/jobs/${id}`), beside[0].id);
    await page.getByRole("heading", { name: beside[0].id }).waitFor();
    await page.waitForSelector("[data-reason=completed], [data-reason=cancelled]");
    assert.ok(await page.evaluate(() => window.sameDocument));
  });
  await demo.stop("SIGINT");
});
