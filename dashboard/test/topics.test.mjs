// The page of topics, in a real browser against the stand-in for the gateway.
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
    await work(page, complaints);
    assert.deepEqual(complaints, [], "errors, or what the policy refused");
  } finally {
    await page.close();
  }
}

const plain = (text) => text.replaceAll(/\s+/g, " ").trim();

for (const language of ["en", "zh"]) {
  test(`the page of topics opens in ${language} and fits a phone`, async () => {
    const init = `localStorage.setItem("punctual.language", "${language}")`;
    await visit("#/topics", { width: 390, height: 844, init }, async (page) => {
      await page.waitForSelector("tr[data-subscription]");
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth), 0, "pixels wider than the phone");
    });
  });
}

test("subscriptions are listed, and a message shows who receives it and why others do not", async () => {
  await visit("#/", {}, async (page) => {
    await page.waitForSelector(".totals");
    await page.keyboard.press("g");
    await page.keyboard.press("t");
    const row = (name) => page.locator(`tr[data-subscription="${name}"]`);
    await row("mailer").waitFor();
    assert.equal(await page.title(), "Topics · Punctual");
    assert.match(plain(await row("mailer").innerText()), /^mailer orders\.\*\.paid country = de amount in 1\.\.9 mail enqueues a copy$/);
    assert.match(plain(await row("stop").innerText()), /onerror=alert\(1\)> reminders cancels by unique key$/);

    await page.getByLabel("Subject").fill("orders.eu.paid");
    await page.getByLabel("Headers").fill("country=fr");
    await page.getByRole("button", { name: "Who receives it?" }).click();
    await page.getByText("2 of 3 subscriptions would receive it. Nothing was stored.").waitFor();
    assert.equal(await row("mailer").getAttribute("data-matches"), "false");
    assert.match(plain(await row("mailer").innerText()), /country is not de$/);
    assert.equal(await row("audit").getAttribute("data-matches"), "true");

    await page.getByLabel("Headers").fill("no equals sign");
    await page.getByRole("button", { name: "Who receives it?" }).click();
    await page.getByRole("alert").getByText("Write each header as name=value, one a line.").waitFor();
    gateway.engine.subscriptions = [];
    await page.getByText("punctual topics subscribe 'orders.>' QUEUE --name NAME").waitFor();
  });
});
