// What others sent is text and nothing else: in payloads, keys, headers, errors, results, progress
// and workers' names.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { HOSTILE } from "../../dev/seed.mjs";
import { launch } from "../browser.mjs";
import { serve, stopAll, visit } from "./serve.mjs";

/** What hides or turns text is written as its number, wherever it comes from. */
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/;

let browser;
let gateway;
before(async () => {
  browser = await launch();
  gateway = await serve();
});
after(async () => {
  await browser?.close();
  await stopAll();
});

/** Opens a page whose content an attacker wrote. */
async function harmless(page) {
  const seen = await page.evaluate(() => ({
    pwned: window.pwned, foreign: document.querySelectorAll("body :is(script, img, svg:not(.icon), iframe, object, embed, style, link)").length,
    handlers: [...document.querySelectorAll("main *")].filter((one) => [...one.attributes].some(({ name, value }) => /^on/.test(name) || (/^(href|src|action)$/.test(name) && /^\s*(javascript|data):/i.test(value)))).length,
    text: document.querySelector("main").innerText, wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  }));
  assert.deepEqual([seen.pwned, seen.foreign, seen.handlers, seen.wide], [undefined, 0, 0, 0]);
  assert.doesNotMatch(seen.text, HIDDEN);
  return seen.text;
}

const key = (text) => text.replace(new RegExp(HIDDEN, "g"), "").slice(0, 80);

test("text that wants to be run, hidden or turned is shown as text, on every page that shows it", async () => {
  for (const [nth, text] of HOSTILE.entries()) {
    const queue = `hostile-${nth}`;
    const { id } = await gateway.enqueue({
      queue, payload: { hostile: text, [text.slice(0, 200)]: [text] }, retention: "1h", unique: key(text), headers: { "x-hostile": key(text) },
    });
    const worker = { id: `0f1e7c3e-8a51-4c3e-8000-3f0f4c1d2b${String(nth).padStart(2, "0")}`, host: key(text), version: key(text), kinds: [queue], slots: 1, busy: 1 };
    const claimed = await gateway.claim(queue, { worker, lease_duration: "5m" });
    await gateway.call("POST", "extensions", { leases: [{ token: claimed.token, jobs: [id], lease_duration: "5m", progress: { [id]: { at: text } } }] });
    await visit(browser, gateway, `#/jobs/${id}`, async (page) => {
      await page.waitForSelector(".tree");
      await page.getByRole("button", { name: "text", exact: true }).first().click();
      const shown = await harmless(page);
      // As JSON has it, where that is what was sent.
      if (!HIDDEN.test(text)) assert.ok(shown.includes(JSON.stringify(text).slice(1, -1)), `${text.slice(0, 60)} is to be read`);
    });
    await visit(browser, gateway, "#/workers", async (page) => {
      await page.waitForSelector(".worker .fold");
      await harmless(page);
    });
    await gateway.settle(claimed, nth % 2 ? { outcome: "dead", error: text } : { outcome: "completed", result: { said: text } });
    await visit(browser, gateway, `#/jobs/${id}`, async (page) => {
      await page.waitForSelector("[data-reason=dead], [data-reason=completed]");
      const shown = await harmless(page);
      if (nth % 2 && !HIDDEN.test(text)) assert.ok(shown.includes(text), "the error is to be read");
    });
    await visit(browser, gateway, `#/queues/${queue}`, async (page) => {
      await page.waitForSelector(".job[data-id]");
      await harmless(page);
    });
  }
  await visit(browser, gateway, "#/jobs?state=dead", async (page) => {
    await page.waitForSelector(".job[data-id]");
    await harmless(page);
  });
  await visit(browser, gateway, `#/jobs?text=${encodeURIComponent(HOSTILE[0])}`, async (page) => {
    await page.waitForSelector(".job[data-id]");
    await harmless(page);
  });
});

test("bytes that are no text are shown as base64, text with NUL and broken UTF-8 among them", async () => {
  const bytes = { nul: Buffer.from("a\0<script>window.pwned=1</script>"), broken: Buffer.from([0xff, 0xfe, 0x3c, 0x73, 0xc3, 0x28]), plain: Buffer.from("<b>plain</b>\u202e") };
  for (const [kind, payload] of Object.entries(bytes)) {
    const base64 = payload.toString("base64");
    const { id } = await gateway.enqueue({ queue: "bytes", kind, payload_base64: base64, content_type: "application/octet-stream", delay: "1h" });
    await visit(browser, gateway, `#/jobs/${id}`, async (page) => {
      await page.waitForSelector("main pre");
      await harmless(page);
      const shown = await page.locator("main pre").first().innerText();
      assert.equal(shown, kind === "plain" ? "<b>plain</b>\\u202e" : base64);
    });
  }
});

test("a payload as large as may be is cut, and shown whole on demand; as JSON it is a tree with bounds", async () => {
  const long = "x".repeat(250_000);
  const { id } = await gateway.enqueue({ queue: "large", payload: long, delay: "1h" });
  await visit(browser, gateway, `#/jobs/${id}`, async (page) => {
    await page.waitForSelector("main pre");
    assert.ok((await page.locator("main pre").first().innerText()).length < 25_000);
    await page.getByRole("button", { name: /250,002 bytes/ }).click();
    assert.equal((await page.locator("main pre").first().innerText()).length, 250_002);
    await harmless(page);
  });
  const wide = await gateway.enqueue({ queue: "large", payload: Array.from({ length: 60_000 }, (_, n) => n % 10), delay: "1h" });
  const deep = await gateway.enqueue({ queue: "large", payload_base64: Buffer.from(`${"[".repeat(50_000)}${"]".repeat(50_000)}`).toString("base64"), delay: "1h" });
  for (const job of [wide, deep]) {
    await visit(browser, gateway, `#/jobs/${job.id}`, async (page) => {
      await page.waitForSelector("main :is(.tree, pre)");
      assert.ok((await page.evaluate(() => document.querySelectorAll("main *").length)) < 2_000, "what is drawn has a bound");
      await harmless(page);
    });
  }
});

test("an address of the page that an attacker wrote runs nothing", async () => {
  const script = encodeURIComponent(`"><img src=x onerror="window.pwned=1">`);
  for (const path of [`#/queues/${script}`, `#/jobs/${script}`, `#/jobs?queue=${script}&text=${script}&kind=${script}`, `#/enqueue?queue=${script}`, `#/${script}`, "#/%E0%A4%A", "#/jobs?state=javascript:1&from=x"]) {
    await visit(browser, gateway, path, async (page) => {
      await page.waitForFunction(() => document.querySelector("main").innerText.length > 3);
      await harmless(page);
    }, { allow: /status of 4/ });
  }
});
