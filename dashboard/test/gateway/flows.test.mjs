// Flows on the real gateway: what the page shows is what the engine has.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch } from "../browser.mjs";
import { serve, stopAll, visit } from "./serve.mjs";

let browser;
before(async () => (browser = await launch()));
after(async () => {
  await browser?.close();
  await stopAll();
});

const notice = (page, text) => page.locator(".notices").getByText(text).waitFor();
const PLAN = {
  name: "order-7",
  steps: [
    { name: "charge", job: { queue: "charge", payload: { order: 7 } } },
    { name: "pack", job: { queue: "pack", max_attempts: 1 }, after: ["charge"] },
    { name: "label", job: { queue: "label", wait_for: ["approved"] }, after: ["charge"] },
    { name: "ship", job: { queue: "ship" }, after: ["pack", "label"] },
    { name: "refund", job: { queue: "refund", wait_for: ["asked"] }, after: [{ step: "pack", on: "failed" }] },
  ],
  on_done: { queue: "reports" }, on_failed: { queue: "alerts" }, on_settled: { queue: "reports" },
};

test("a flow is watched as its steps end, retried, recounted and cancelled", async () => {
  const own = await serve();
  const { steps } = await own.call("POST", "flows", PLAN);
  const idOf = (name) => steps.find((step) => step.name === name).id;
  const end = async (name, as) => own.settle(await own.claim(name), as);
  await visit(browser, own, "#/flows", async (page) => {
    await page.locator('tr[data-flow="order-7"]').getByText("0 / 5").waitFor();
    await page.getByRole("link", { name: "order-7" }).click();
    await page.locator('.node.s-ready[data-step="charge"]').waitFor();
    assert.deepEqual(await page.locator(".graph .edge").evaluateAll((all) => all.filter((one) => one.classList.contains("on-failed")).length), 1);
    assert.deepEqual((await page.locator(".node.chain b").allInnerTexts()).length, 3);
    await end("charge", { outcome: "completed", result: { receipt: 12 } });
    await page.locator('.node.s-completed[data-step="charge"]').waitFor();
    await page.locator("[data-hold=pack] .explain").waitFor();
    await page.locator("[data-hold=label]").getByText("approved").waitFor();
    // A result stays with the flow, though nothing of its job is kept.
    await page.locator('tr[data-step="charge"]').getByText('{"receipt":12}').waitFor();
    await end("pack", { outcome: "dead", error: "shelf 12 is empty" });
    await page.locator('.node.bad[data-step="pack"]').waitFor();
    await page.locator("[data-hold=pack]").getByText("shelf 12 is empty").waitFor();
    await page.locator('.node[data-step="ship"]').getByText("passed over").waitFor();
    await page.locator("[data-action=retry]").click();
    await page.getByText("1 dead, 0 cancelled").waitFor();
    await page.getByRole("button", { name: "Run again", exact: true }).click();
    await notice(page, "order-7: 1 step runs again");
    await page.locator('.node.s-ready[data-step="pack"]').waitFor();
    await page.locator('.node.s-held[data-step="ship"]').waitFor();
    await page.locator("[data-action=recount]").click();
    await page.waitForSelector("[data-agrees=true]");
    await page.locator("dialog footer .main").click();
    await page.locator("[data-action=cancel]").click();
    await page.getByText("4 steps have not settled").waitFor();
    await page.getByRole("button", { name: "Cancel the flow" }).click();
    await page.waitForSelector("[data-flow-state=cancelled]");
    await page.waitForSelector("[data-callback=on_settled][data-fired=true]");
    await page.waitForSelector("[data-callback=on_done][data-fired=false]");
  });
  assert.equal((await own.call("GET", "flows/order-7")).state, "cancelled");
  await visit(browser, own, `#/jobs/${idOf("pack")}`, async (page) => {
    await page.locator('[data-flow="order-7"]').getByText("Step pack of flow").waitFor();
    await page.locator('[data-flow="order-7"] a').click();
    await page.waitForSelector(".graph");
  });
  await own.stop();
});

test("a step is run again with all that depends on it", async () => {
  const own = await serve();
  const steps = ["one", "two", "three"].map((name, n) => ({ name, job: { queue: name, retention: "1h" }, after: n ? [["one", "two"][n - 1]] : [] }));
  await own.call("POST", "flows", { name: "chain", steps });
  for (const { name } of steps) await own.settle(await own.claim(name), { outcome: "completed" });
  await visit(browser, own, "#/flows/chain", async (page) => {
    await page.waitForSelector("[data-flow-state=done]");
    await page.locator('tr[data-step="two"] [data-action=retry-from]').click();
    await page.getByRole("button", { name: "Run again", exact: true }).click();
    await notice(page, "step runs again");
    await page.locator('.node.s-ready[data-step="two"]').waitFor();
    await page.locator('.node.s-held[data-step="three"]').waitFor();
    assert.equal(await page.locator('.node.s-completed[data-step="one"]').count(), 1);
  });
  await own.stop();
});

test("300 steps are shown by layers, and 1,500 by pages of steps", async () => {
  const own = await serve();
  const wide = (many) => Array.from({ length: many }, (_, n) => ({ name: `s-${n}`, job: { queue: "wide" }, after: n >= 100 ? [`s-${n - 100}`] : [] }));
  await own.call("POST", "flows", { name: "wide", steps: wide(300) });
  await own.call("POST", "flows", { name: "large", steps: wide(750), seal: false });
  await own.call("POST", "flows", { name: "large", steps: wide(1_500).slice(750), seal: false });
  await own.call("POST", "flows/large/seal", { steps: 1_500 });
  await visit(browser, own, "#/flows/wide", async (page) => {
    await page.waitForSelector("[data-layer='3']");
    assert.deepEqual(await page.locator("[data-layer] td:nth-child(2)").allInnerTexts(), ["100", "100", "100"]);
    await page.getByText("The longest chain of steps that are left has 3 steps.").waitFor();
  });
  await visit(browser, own, "#/flows/large", async (page) => {
    await page.getByText("neither a graph nor layers are shown").waitFor();
    await page.locator('tr[data-step="s-0"]').waitFor();
    await page.selectOption("main select[name=state]", "ready");
    await page.waitForFunction(() => document.querySelectorAll("tr[data-step]").length === 100);
    await page.locator("[data-hold]").first().waitFor();
  });
  await own.stop();
});
