// The page of named limits, in a real browser against the stand-in for the gateway.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { start, stopAll } from "../dev/server.mjs";
import { launch, open } from "./browser.mjs";

let browser;
before(async () => (browser = await launch()));
after(async () => {
  await browser?.close();
  await stopAll();
});

async function visit(own, options, work) {
  const { page, complaints } = await open(browser, own.url, { path: "#/limits", ...options });
  try {
    await work(page);
    assert.deepEqual(complaints, [], "errors, or what the policy refused");
  } finally {
    await page.close();
  }
}

const plain = (text) => text.replaceAll(/\s+/g, " ").trim();
const notice = (page, text) => page.locator(".notices").getByText(text).waitFor();
const row = (page, name) => page.locator(`tr[data-named-limit="${name}"]`);

test("named limits are set, blocked, opened again and taken off", async () => {
  const own = await start({ jobs: 0, queues: 1, live: false });
  const limits = own.engine.namedLimits.of;
  await visit(own, {}, async (page) => {
    await page.getByText("punctual limits set api --rate 100/1m").waitFor();
    assert.equal(await page.title(), "Limits · Punctual");
    await page.getByRole("button", { name: "Set a limit…" }).click();
    const save = page.getByRole("button", { name: "Save" });
    await page.fill("dialog [name=name]", "two words");
    await page.fill("dialog [name=concurrency]", "4");
    assert.ok(await save.isDisabled(), "a name of records has no space");
    await page.fill("dialog [name=name]", "smtp:gmail.com");
    await page.fill("dialog [name=starts]", "100");
    await page.fill("dialog [name=per]", "1m");
    await save.click();
    await notice(page, "smtp:gmail.com: limits set");
    assert.deepEqual(limits.get("smtp:gmail.com"), { name: "smtp:gmail.com", active: 0, waiting: 0, set_by: "smtp:gmail.com", concurrency: 4, rate: { kind: "window", starts: 100, per: "1m" } });
    assert.match(plain(await row(page, "smtp:gmail.com").innerText()), /^smtp:gmail\.com open 0 4 active at most · 100 in any 1m/);

    await page.getByRole("button", { name: "Set smtp:gmail.com" }).click();
    await page.selectOption("dialog [name=when_full]", "refuse");
    await page.getByRole("button", { name: "Save" }).click();
    await page.waitForFunction(() => !document.querySelector("dialog[open]"));
    assert.equal(limits.get("smtp:gmail.com").when_full, "refuse");
    await page.getByRole("button", { name: "Set smtp:gmail.com" }).click();
    assert.equal(await page.inputValue("dialog [name=when_full]"), "refuse");
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => !document.querySelector("dialog[open]"));

    await page.getByRole("button", { name: "Block smtp:gmail.com" }).click();
    await page.fill("dialog [name=span]", "soon");
    assert.ok(await page.getByRole("button", { name: "Block", exact: true }).isDisabled());
    await page.fill("dialog [name=span]", "5m");
    await page.getByRole("button", { name: "Block", exact: true }).click();
    await notice(page, "smtp:gmail.com: blocked for 5m");
    await row(page, "smtp:gmail.com").and(page.locator("[data-closed=blocked]")).waitFor();
    assert.match(plain(await row(page, "smtp:gmail.com").innerText()), /blocked opens in (5m|4m \d+s)/);
    await page.getByRole("button", { name: "Block smtp:gmail.com" }).click();
    await page.getByRole("button", { name: "End the block" }).click();
    await notice(page, "not blocked any more");
    assert.equal(limits.get("smtp:gmail.com").closed, undefined);

    await page.getByRole("button", { name: "Set smtp:gmail.com" }).click();
    assert.equal(await page.inputValue("dialog [name=concurrency]"), "4");
    await page.getByRole("button", { name: "Take limits off" }).click();
    await notice(page, "no limits any more");
    assert.equal(limits.size, 0);
  });
  await own.stop();
});

test("a key shows whose settings it has; a reader sees no buttons; names are text", async () => {
  const own = await start({ jobs: 0, queues: 1, live: false, scopes: ["read"] });
  own.engine.namedLimits.of.set("smtp:gmx.de", { name: "smtp:gmx.de", active: 2, waiting: 7, set_by: "smtp", concurrency: 2, closed: "concurrency" });
  own.engine.namedLimits.of.set("smtp:<img onerror=alert(1)>", { name: "smtp:<img onerror=alert(1)>", active: 1, waiting: 0 });
  await visit(own, { width: 390, height: 844 }, async (page) => {
    await row(page, "smtp:gmx.de").waitFor();
    await page.waitForFunction(() => !document.querySelector("[data-named-limit] button"));
    assert.equal(plain(await row(page, "smtp:gmx.de").innerText()), "smtp:gmx.de all slots in use 2 7 2 active at most · set by smtp");
    await page.getByText("smtp:<img onerror=alert(1)>").waitFor();
    assert.equal(await page.locator("main button").filter({ hasText: "…" }).count(), 0);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth), 0, "pixels wider than the phone");
  });
  await own.stop();
});

test("the counts of a limit lead to its jobs", async () => {
  const own = await start({ jobs: 0, queues: 1, live: false });
  const name = "smtp:<b>&x";
  own.engine.namedLimits.of.set(name, { name, active: 0, waiting: 2 });
  for (const n of [1, 2]) own.engine.enqueue({ queue: "mail", kind: `mail.limited-${n}`, limits: [name] }, "{}");
  own.engine.enqueue({ queue: "mail", kind: "mail.free" }, "{}");
  await visit(own, {}, async (page) => {
    await row(page, name).getByRole("link", { name: "2" }).click();
    await page.getByText("mail.limited-1").first().waitFor();
    await page.getByText("mail.limited-2").first().waitFor();
    assert.equal(await page.getByText("mail.free").count(), 0);
    assert.equal(await page.inputValue("form.filters [name=limit]"), name);
    assert.match(page.url(), /limit=smtp%3A%3Cb%3E%26x/);
  });
  await own.stop();
});

test("an engine without named limits says so", async () => {
  const own = await start({ jobs: 0, queues: 1, live: false });
  const info = own.engine.info.bind(own.engine);
  own.engine.info = () => ({ ...info(), capabilities: ["delay"] });
  await visit(own, { init: `localStorage.setItem("punctual.language", "zh")` }, (page) => page.getByText("这个引擎没有命名限制。").waitFor());
  await own.stop();
});

test("every reason that the gateway gives has a sentence of the page", async () => {
  const read = (path) => readFile(new URL(`../${path}`, import.meta.url), "utf8");
  const [gateway, page] = await Promise.all([read("../crates/punctual-gateway/src/json/reason.rs"), read("src/parts/explain.tsx")]);
  const given = [...gateway.matchAll(/Reason::\w+(?: \{ \.\. \})? => "(\w+)"/g)].map(([, name]) => name);
  assert.ok(given.length > 20, "the names of reason.rs");
  assert.deepEqual(given.filter((name) => !page.includes(`case "${name}"`)), ["never_released"], "whose own sentence names what it waited for");
});
