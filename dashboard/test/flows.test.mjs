// The pages of flows, in a real browser against the stand-in for the gateway.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { HOSTILE } from "../dev/seed.mjs";
import { start, stopAll } from "../dev/server.mjs";
import { launch, open } from "./browser.mjs";

let browser;
let gateway;
before(async () => {
  browser = await launch();
  gateway = await start({ jobs: 300, queues: 8, live: false });
});
after(async () => {
  await browser?.close();
  await stopAll();
});

async function visit(path, options = {}, work) {
  const { page, complaints } = await open(browser, options.of?.url ?? gateway.url, { path, ...options });
  try {
    await work(page);
    assert.deepEqual(complaints, [], "errors, or what the policy refused");
  } finally {
    await page.close();
  }
}

const flowOf = (name, of = gateway) => of.engine.flows.flows.get(name);
const notice = (page, text) => page.locator(".notices").getByText(text).waitFor();
const plain = (text) => text.replaceAll(/\s+/g, " ").trim();

for (const language of ["en", "zh"]) {
  for (const path of ["#/flows", "#/flows/order-7", "#/flows/order-8", "#/flows/import-2026-11", "#/flows/films", "#/flows/nightly-invoices", "#/flows/none-such"]) {
    test(`${path} opens without an error in ${language}, and fits a phone`, async () => {
      const init = `localStorage.setItem("punctual.language", "${language}")`;
      await visit(path, { width: 390, height: 844, init }, async (page) => {
        await page.waitForSelector("[data-flow], [data-step], .title + .empty");
        assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth), 0, "pixels wider than the phone");
        assert.equal(await page.locator("h1").count(), 1);
      });
    });
  }
}

test("flows are listed with their states, filtered, and paged", async () => {
  const own = await start({ jobs: 0, queues: 1, live: false });
  for (let n = 0; n < 150; n += 1) own.engine.flows.add(`batch-${String(n).padStart(3, "0")}`, [["one", "completed"]]);
  await visit("#/", { of: own }, async (page) => {
    await page.waitForSelector(".totals");
    await page.keyboard.press("g");
    await page.keyboard.press("f");
    await page.waitForSelector("tr[data-flow]");
    assert.equal(await page.title(), "Flows · Punctual");
    assert.equal(await page.locator("tr[data-flow]").count(), 100);
    await page.getByRole("button", { name: "Next 100" }).click();
    const row = page.locator('tr[data-flow="order-8"]');
    await row.waitFor();
    assert.match(plain(await row.innerText()), /^order-8 failed 5 1h 30m ago/);
    assert.equal(await row.locator(".flow-bar").getAttribute("aria-label"), "completed 3, passed over 1, dead 1");
    await page.selectOption("[name=state]", "cancelled");
    await page.waitForFunction(() => [...document.querySelectorAll("tr[data-flow]")].map((one) => one.dataset.flow).join() === "order-9");
    await page.selectOption("[name=state]", "");
    await page.fill("main input[type=search]", "nightly");
    await page.waitForFunction(() => document.querySelectorAll("tr[data-flow]").length === 1);
    await page.getByRole("link", { name: "nightly-invoices" }).click();
    await page.getByRole("heading", { name: "nightly-invoices" }).waitFor();
  });
  await own.stop();
});

test("the graph has each step, each kind of edge and the longest chain, and leads to jobs", async () => {
  await visit("#/flows/order-7", {}, async (page) => {
    await page.waitForSelector(".graph .node");
    const { steps, edges } = flowOf("order-7");
    assert.equal(await page.locator(".graph .node:not(.outside)").count(), steps.length);
    assert.equal(await page.locator(".graph .node.outside").count(), 1);
    assert.equal(await page.locator(".graph .edge").count(), edges.length);
    assert.equal(await page.locator(".graph .edge.on-failed").count(), 1);
    assert.equal(await page.locator(".graph .edge.on-settled").count(), 2);
    const chain = await page.locator(".graph .node.chain b").allInnerTexts();
    assert.deepEqual(chain.sort(), ["customs", "label", "mail", "ship"]);
    assert.equal(await page.locator(".graph .edge.chain").count(), 3);
    await page.getByText("The longest chain of steps that are left has 4 steps.").waitFor();
    const at = async (step) => (await page.locator(`.node[data-step="${step}"]`).boundingBox()).x;
    assert.ok((await at("charge")) < (await at("pack")) && (await at("pack")) < (await at("ship")));
    await page.locator('.node[data-step="pack"]').click();
    await page.getByRole("heading", { name: steps.find(({ name }) => name === "pack").id }).waitFor();
    await page.locator('[data-flow="order-7"]').getByText("Step pack of flow").waitFor();
    await page.locator('[data-flow="order-7"] a').click();
    await page.waitForSelector(".graph");
  });
});

test("what holds a flow is named with its reason, and callbacks say whether they ran", async () => {
  await visit("#/flows/order-7", {}, async (page) => {
    await page.waitForSelector(".holds .explain");
    assert.deepEqual(await page.locator("[data-hold]").evaluateAll((all) => all.map((one) => one.dataset.hold)), ["pack", "label"]);
    await page.locator("[data-hold=label]").getByText("approved:7").waitFor();
    assert.equal(await page.locator("[data-callback=on_settled][data-fired=false]").count(), 1);
  });
  await visit("#/flows/order-8", {}, async (page) => {
    await page.locator("[data-hold=pack]").getByText("shelf 12 is empty").waitFor();
    assert.deepEqual(await page.locator("[data-callback]").evaluateAll((all) => all.map((one) => one.dataset.fired)), ["false", "true", "true"]);
    assert.equal(await page.locator('tr[data-step="label"] code').last().innerText(), '{"code":"ABC"}');
    assert.match(plain(await page.locator('tr[data-step="ship"]').innerText()), /^ship passed over/);
  });
  await visit("#/flows/import-2026-11", {}, async (page) => {
    await page.locator(".note").getByText("nothing of it runs until it is sealed").waitFor();
    await page.locator(".holds").getByText("nothing of it runs until it is sealed").waitFor();
    assert.equal(await page.locator("[data-hold]").count(), 0);
  });
});

test("a flow of more than 200 steps is shown by layers, one of thousands by its steps", async () => {
  await visit("#/flows/video-pipeline", {}, async (page) => {
    await page.waitForSelector("[data-layer]");
    assert.match(await page.locator(".why-no-graph").innerText(), /288 steps; a graph is drawn of up to 200.*longest chain of steps that are left has 8 steps/);
    assert.equal(await page.locator("[data-layer]").count(), 12);
    assert.equal(await page.locator("[data-layer='5'] .flow-bar").getAttribute("aria-label"), "completed 9, left 15");
    assert.equal(await page.locator(".graph").count(), 0);
  });
  const calls = gateway.calls.length;
  await visit("#/flows/nightly-invoices", {}, async (page) => {
    await page.getByText("neither a graph nor layers are shown").waitFor();
    // What ended badly comes first, wherever it is among ten thousand.
    await page.locator("[data-hold]").first().waitFor();
    assert.equal(await page.locator("[data-hold]").first().getAttribute("data-hold"), "invoice-8400");
    await page.getByText("1 to 100").waitFor();
    await page.getByRole("button", { name: "Next" }).click();
    await page.locator('tr[data-step="invoice-100"]').waitFor();
    await page.selectOption("select[name=state]", "dead");
    await page.locator('tr[data-step="invoice-8400"]').waitFor();
    assert.equal(await page.locator("tr[data-step]").count(), 1);
    await page.getByText("10,000 examined").waitFor();
  });
  assert.ok(!gateway.calls.slice(calls).some((call) => call.endsWith("/graph")), "no graph is asked for that the server refuses");
});

test("a flow is retried from a step and as a whole, recounted and cancelled, each in a dialog", async () => {
  const own = await start({ jobs: 0, queues: 1, live: false });
  const stateOf = (step) => flowOf("order-8", own).steps.find(({ name }) => name === step).state;
  await visit("#/flows/order-8", { of: own }, async (page) => {
    await page.locator('tr[data-step="label"] [data-action=retry-from]').click();
    await page.getByText("This step runs again however it ended").waitFor();
    await page.getByRole("button", { name: "Run again", exact: true }).click();
    await notice(page, "order-8: 1 step runs again");
    assert.equal(stateOf("label"), "ready");
    await page.locator("[data-action=retry]").click();
    await page.getByText("1 dead, 0 cancelled").waitFor();
    flowOf("order-8", own).leftOut = { gone: 2, gone_steps: ["ship", "mail"], unique_held: 1, unique_held_steps: [{ step: "label", holder: "job-1" }] };
    await page.getByRole("button", { name: "Run again", exact: true }).click();
    await page.waitForFunction(() => !document.querySelector("dialog"));
    await notice(page, "2 cannot, as their jobs are gone: ship, mail");
    await notice(page, "1 cannot, as another job holds their unique key: label (job-1)");
    assert.equal(stateOf("pack"), "ready");
    await page.locator("[data-action=recount]").click();
    await page.waitForSelector("[data-agrees=true]");
    flowOf("order-8", own).drift = 1;
    await page.getByRole("button", { name: "Count again" }).click();
    await page.waitForSelector("[data-agrees=false]");
    await page.getByText("Steps that differ: charge").waitFor();
    await page.locator("dialog footer .main").click();
    await page.locator("[data-action=cancel]").click();
    await page.getByText("steps have not settled").waitFor();
    await page.getByRole("button", { name: "Cancel the flow" }).click();
    await page.waitForSelector("[data-flow-state=cancelled]");
    assert.ok(await page.locator("[data-action=cancel]").isDisabled());
    // What the server refuses is shown where it was asked.
    await page.locator('tr[data-step="charge"] [data-action=retry-from]').click();
    own.engine.flows.flows.delete("order-8");
    await page.getByRole("button", { name: "Run again", exact: true }).click();
    await page.locator("dialog [role=alert]").getByText("there is no such flow; GET /v1/flows lists them").waitFor();
  });
  await own.stop();
});

test("a token that only reads recounts, and changes nothing", async () => {
  const own = await start({ jobs: 0, queues: 8, live: false, scopes: ["read"] });
  await visit("#/flows/order-8", { of: own }, async (page) => {
    await page.waitForSelector("[data-step] td");
    assert.deepEqual(await page.locator("[data-action]").evaluateAll((all) => all.map((one) => one.dataset.action)), ["recount"]);
  });
  await own.stop();
});

test("names of flows and steps are text and nothing else", async () => {
  const [name] = [...gateway.engine.flows.flows.keys()].filter((one) => one.includes("onerror"));
  for (const path of ["#/flows", `#/flows/${encodeURIComponent(name)}`]) {
    await visit(path, {}, async (page) => {
      await page.waitForSelector("[data-flow], .graph .node");
      await page.waitForTimeout(300);
      const seen = await page.evaluate(() => ({ pwned: window.pwned, foreign: document.querySelectorAll("main :is(script, img, iframe, object, embed, style, link)").length, text: document.querySelector("main").innerText }));
      assert.deepEqual([seen.pwned, seen.foreign], [undefined, 0]);
      assert.ok(seen.text.includes(HOSTILE[1]));
      assert.doesNotMatch(seen.text, /[\u202a-\u202e\u2066-\u2069\u200b\u001b]/);
    });
  }
  await visit(`#/flows/${encodeURIComponent(name)}`, {}, async (page) => {
    await page.locator("[data-action=cancel]").click();
    assert.doesNotMatch(await page.locator("dialog").innerText(), /\u202e/);
  });
});

test("an engine without flows says so in words", async () => {
  const own = await start({ jobs: 0, queues: 8, live: false });
  const info = own.engine.info.bind(own.engine);
  own.engine.info = () => ({ ...info(), capabilities: ["delay"] });
  own.engine.flows.route = () => ({ refused: [422, "unsupported", "this engine has no flows"] });
  for (const path of ["#/flows", "#/flows/order-7"]) await visit(path, { of: own }, (page) => page.getByText("This engine has no flows.").waitFor());
  await own.stop();
});
