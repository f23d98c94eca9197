// The limits of a queue, in a real browser against the stand-in for the gateway.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { start, stopAll } from "../dev/server.mjs";
import { launch, open } from "./browser.mjs";

let browser;
before(async () => (browser = await launch()));
after(async () => {
  await browser?.close();
  await stopAll();
});

async function visit(own, path, options, work) {
  const { page, complaints } = await open(browser, own.url, { path, ...options });
  try {
    await work(page);
    assert.deepEqual(complaints, [], "errors, or what the policy refused");
  } finally {
    await page.close();
  }
}

const notice = (page, text) => page.locator(".notices").getByText(text).waitFor();

test("limits of a queue are set, checked, shown as they stand, and taken off", async () => {
  const own = await start({ jobs: 0, queues: 8, live: false });
  const limits = own.engine.limits.of;
  await visit(own, "#/queues/mail", { width: 390, height: 844 }, async (page) => {
    const isDisabled = () => page.getByRole("button", { name: "Save" }).isDisabled();
    const edit = () => page.locator("[data-action=limits]").click();
    await edit();
    await page.getByText("No limits: jobs start as workers claim them.").waitFor();
    assert.ok(await isDisabled(), "there is nothing to save");
    await page.fill("dialog [name=concurrency]", "1000001");
    await page.getByText("Write an integer from 1 to 1,000,000.").waitFor();
    assert.ok(await isDisabled());
    await page.fill("dialog [name=concurrency]", "30");
    await page.fill("dialog [name=starts]", "100");
    await page.getByText("Say in which span.").waitFor();
    await page.fill("dialog [name=per]", "1d1d");
    await page.getByRole("button", { name: "Save" }).click();
    await page.locator("dialog [role=alert]").getByText(`rate.per is "1d1d": not a span; write a number`).waitFor();
    await page.fill("dialog [name=per]", "1m");
    await page.selectOption("dialog [name=kind]", "smooth");
    await page.fill("dialog [name=burst]", "101");
    assert.ok(await isDisabled());
    await page.fill("dialog [name=burst]", "");
    await page.getByRole("button", { name: "Save" }).click();
    await notice(page, "mail: limits set");
    assert.deepEqual(limits.get("mail"), { concurrency: 30, rate: { kind: "smooth", starts: 100, per: "1m", burst: 10 } });
    limits.set("mail", { ...limits.get("mail"), closed: "rate", opens_at: new Date(Date.now() + 90_000).toISOString(), waits_ms: 5_200 });
    await page.reload();
    await page.locator(".title [data-limit=rate]").getByText(/0 of 30 active · 100 evenly in 1m · burst 10 · rate used up, opens in 1m \d+s · the oldest due job waits 5\.2 s/).waitFor();
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth), 0, "pixels wider than the phone");
    await edit();
    await page.waitForFunction(() => document.querySelector("dialog [name=burst]")?.value === "10");
    await page.locator("dialog [data-limit=rate]").waitFor();
    await page.locator("[data-action=remove-limits]").click();
    await notice(page, "mail: no limits any more");
    await page.waitForFunction(() => !document.querySelector(".title [data-limit]"));
    assert.equal(limits.has("mail"), false);
  });
  await own.stop();
});

test("limits and weights of shares are shown, checked and set with those of the queue", async () => {
  const own = await start({ jobs: 0, queues: 8, live: false });
  const limits = own.engine.limits.of;
  const shares = { concurrency: 4, max_pending: 900, weights: { acme: 5 } };
  limits.set("mail", { concurrency: 30, shares });
  await visit(own, "#/queues/mail", {}, async (page) => {
    await page.locator("[data-action=limits]").click();
    await page.waitForFunction(() => document.querySelector("dialog [name=concurrency]")?.value === "30");
    await page.fill("dialog [name=concurrency]", "40");
    await page.getByRole("button", { name: "Save" }).click();
    await notice(page, "mail: limits set");
    assert.deepEqual(limits.get("mail"), { concurrency: 40, shares }, "what was not touched stays");
    await page.locator("[data-action=limits]").click();
    await page.waitForFunction(() => document.querySelector("dialog [name=share_concurrency]")?.value === "4");
    assert.equal(await page.inputValue("dialog [name=weights]"), "acme 5");
    for (const bad of ["acme", "acme 0", "acme 1001", "acme 5\nacme 6"]) {
      await page.fill("dialog [name=weights]", bad);
      await page.getByText("Write a share and a weight of 1 to 1,000 in each line").waitFor();
      assert.ok(await page.getByRole("button", { name: "Save" }).isDisabled(), bad);
    }
    await page.fill("dialog [name=weights]", " acme  7 \n\nblue inc 2");
    await page.fill("dialog [name=share_concurrency]", "");
    await page.fill("dialog [name=share_max_pending]", "0");
    assert.ok(await page.getByRole("button", { name: "Save" }).isDisabled(), "a share of no job");
    await page.fill("dialog [name=share_max_pending]", "");
    await page.fill("dialog [name=share_starts]", "10");
    await page.fill("dialog [name=share_per]", "1s");
    await page.fill("dialog [name=concurrency]", "");
    await page.getByRole("button", { name: "Save" }).click();
    await page.waitForFunction(() => !document.querySelector("dialog"));
    const rate = { kind: "window", starts: 10, per: "1s" };
    assert.deepEqual(limits.get("mail"), { shares: { rate, weights: { acme: 7, "blue inc": 2 } } });
    await page.locator("[data-action=limits]").click();
    await page.waitForFunction(() => document.querySelector("dialog [name=share_starts]")?.value === "10");
    await page.locator("[data-action=remove-limits]").click();
    await notice(page, "mail: no limits any more");
    assert.equal(limits.has("mail"), false);
  });
  await own.stop();
});

test("one share gets a weight, and each share of its queue limits, from its row", async () => {
  const own = await start({ jobs: 0, queues: 8, live: false });
  const limits = own.engine.limits.of;
  limits.set("mail", { concurrency: 30, shares: { concurrency: 4, max_pending: 900, weights: { blue: 2 } } });
  own.engine.shares.of.set("mail", [{ share: "acme", ready: 12, active: 4, weight: 1 }]);
  await visit(own, "#/queues/mail", { width: 390, height: 844 }, async (page) => {
    const save = page.getByRole("button", { name: "Save" });
    const edit = () => page.locator(".shares").getByRole("button", { name: "Limits… acme" }).click();
    await edit();
    await page.getByText("Share acme of mail").waitFor();
    await page.waitForFunction(() => document.querySelector("dialog [name=share_concurrency]")?.value === "4");
    assert.deepEqual([await page.inputValue("dialog [name=weight]"), await page.inputValue("dialog [name=share_max_pending]")], ["1", "900"]);
    for (const bad of ["", "0", "1001", "x"]) {
      await page.fill("dialog [name=weight]", bad);
      await page.waitForFunction(() => document.querySelector("dialog [name=weight]").ariaInvalid === "true" || document.querySelector("dialog [name=weight]").getAttribute("aria-invalid") === "true");
      assert.ok(await save.isDisabled(), bad);
    }
    await page.fill("dialog [name=weight]", "5");
    await page.fill("dialog [name=share_max_pending]", "1000001");
    await page.getByText("Write an integer from 1 to 1,000,000.").waitFor();
    assert.ok(await save.isDisabled());
    await page.fill("dialog [name=share_max_pending]", "1000");
    await page.fill("dialog [name=share_starts]", "10");
    await page.fill("dialog [name=share_per]", "1s");
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth), 0, "pixels wider than the phone");
    await save.click();
    await notice(page, "share acme: limits set");
    const rate = { kind: "window", starts: 10, per: "1s" };
    assert.deepEqual(limits.get("mail"), { concurrency: 30, shares: { concurrency: 4, rate, max_pending: 1_000, weights: { blue: 2, acme: 5 } } }, "the limits of the queue stay");
    await edit();
    await page.waitForFunction(() => document.querySelector("dialog [name=weight]")?.value === "5");
    await page.fill("dialog [name=weight]", "1");
    await save.click();
    await page.waitForFunction(() => !document.querySelector("dialog"));
    assert.deepEqual(limits.get("mail").shares.weights, { blue: 2 }, "1 is the weight of a share that is not named");
  });
  await own.stop();
});

test("shares of a queue are listed, and one is paused and resumed", async () => {
  const hostile = "<img src=x onerror=alert(1)>\u202e";
  const list = () => [
    { share: "acme", ready: 1_200, active: 4, weight: 5 },
    { share: hostile, ready: 3, active: 0, weight: 1, closed: "rate", opens_at: new Date(Date.now() + 90_000).toISOString() },
  ];
  const own = await start({ jobs: 0, queues: 8, live: false });
  own.engine.shares.of.set("mail", list());
  const state = (share) => own.engine.shares.of.get("mail").find((one) => one.share === share).closed;
  await visit(own, "#/queues/mail", { width: 390, height: 844 }, async (page) => {
    const row = (share) => page.locator(".shares tbody tr").filter({ hasText: share });
    await row("acme").getByText("1,200").waitFor();
    await row("<img src=x").getByText(/rate used up opens in 1m \d+s/).waitFor();
    assert.equal(await page.locator(".shares img").count(), 0);
    await row("acme").getByRole("button", { name: "Pause acme" }).click();
    await notice(page, "share acme: Pause");
    await row("acme").getByText("paused").waitFor();
    assert.deepEqual([state("acme"), state(hostile)], ["paused", "rate"]);
    await row("acme").getByRole("button", { name: "Resume acme" }).click();
    await row("acme").getByText("open").waitFor();
    assert.equal(state("acme"), undefined);
    await page.locator(".notices").getByRole("button", { name: "Undo (Pause)" }).click();
    await row("acme").getByText("paused").waitFor();
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth), 0, "pixels wider than the phone");
  });
  await visit(own, "#/queues/reports", {}, async (page) => {
    await page.locator(".states-tabs").waitFor();
    assert.equal(await page.locator(".shares").count(), 0, "a queue without shares has no panel");
  });
  await own.stop();
  const reading = await start({ jobs: 0, queues: 8, live: false, scopes: ["read"] });
  reading.engine.shares.of.set("mail", list());
  await visit(reading, "#/queues/mail", {}, async (page) => {
    await page.locator(".shares [data-share=acme]").waitFor();
    assert.equal(await page.locator(".shares button").count(), 0);
  });
  await reading.stop();
});

test("a token that only reads sees limits and no dialog; an engine without them says so", async () => {
  const own = await start({ jobs: 0, queues: 8, live: false, scopes: ["read"] });
  own.engine.limits.of.set("mail", { concurrency: 5, closed: "concurrency" });
  await visit(own, "#/queues/mail", {}, async (page) => {
    await page.locator("[data-limit=concurrency]").getByText("0 of 5 active · all slots in use").waitFor();
    await page.waitForFunction(() => !document.querySelector("[data-action=limits]"));
  });
  await own.stop();
  const lacking = await start({ jobs: 0, queues: 8, live: false });
  const info = lacking.engine.info.bind(lacking.engine);
  lacking.engine.info = () => ({ ...info(), capabilities: ["delay"] });
  await visit(lacking, "#/queues/mail", {}, async (page) => {
    await page.locator("[data-action=limits]").click();
    await page.getByText("This engine keeps no limits").waitFor();
    await page.fill("dialog [name=concurrency]", "5");
    assert.ok(await page.getByRole("button", { name: "Save" }).isDisabled());
  });
  await lacking.stop();
});
