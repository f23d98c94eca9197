// The page of relays, in a real browser against the stand-in for the gateway.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { start, stopAll } from "../dev/server.mjs";
import { launch, open } from "./browser.mjs";

let browser;
let gateway;
before(async () => {
  browser = await launch();
  gateway = await start({ jobs: 0, queues: 1, live: false });
});
after(async () => {
  await browser?.close();
  await stopAll();
});

async function visit(path, options, work) {
  const { page, complaints } = await open(browser, gateway.url, { path, ...options });
  try {
    await work(page);
    assert.deepEqual(complaints, [], "errors, or what the policy refused");
  } finally {
    await page.close();
  }
}

const plain = (text) => text.replaceAll(/\s+/g, " ").trim();

for (const language of ["en", "zh"]) {
  test(`the page of relays opens in ${language} and fits a phone`, async () => {
    const init = `localStorage.setItem("punctual.language", "${language}")`;
    await visit("#/relays", { width: 390, height: 844, init }, async (page) => {
      await page.waitForSelector("tr[data-relay]");
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth), 0, "pixels wider than the phone");
    });
  });
}

test("each relay shows its rate, its lag, what it refused and its last error", async () => {
  await visit("#/", {}, async (page) => {
    await page.waitForSelector(".totals");
    await page.keyboard.press("g");
    await page.keyboard.press("r");
    const row = (name) => page.locator(`tr[data-relay="${name}"]`);
    await row("files").waitFor();
    assert.equal(await page.title(), "Relays · Punctual");
    assert.match(plain(await row("files").innerText()), /^files redis-stream running files 412 1,204 91,200 0 4 0 120 ms ago entry 17-0/);
    assert.match(plain(await row("orders").innerText()), /down amqp\.orders\.delayed 0 – .* 12 .*onerror=alert/);
    assert.equal(await row("files").getByRole("link", { name: "4" }).getAttribute("href"), "#/jobs?queue=relay.files.refused&state=dead");
    gateway.engine.relays = [];
    await page.getByText("punctual serve --relay FILE.toml").waitFor();
  });
});
