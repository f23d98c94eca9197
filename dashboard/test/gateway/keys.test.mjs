// Everything by keys alone, and every control has a name for those who do not see it. On the real
// gateway.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch } from "../browser.mjs";
import { serve, stopAll, visit } from "./serve.mjs";

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

/** Presses Tab until it stands on the control of that name. */
async function tabTo(page, name) {
  const found = () =>
    page.evaluate((wanted) => {
      const one = document.activeElement;
      return one !== document.body && (one.getAttribute("aria-label") ?? one.labels?.[0]?.innerText ?? one.innerText ?? "").trim().startsWith(wanted);
    }, name);
  for (let presses = 0; presses < 150; presses += 1) {
    if (await found()) return;
    await page.keyboard.press("Tab");
  }
  assert.fail(`no Tab leads to ${name}`);
}
const press = async (page, name) => {
  await tabTo(page, name);
  await page.keyboard.press("Enter");
};
const dead = async (queue, count) => {
  await gateway.enqueue(Array.from({ length: count }, (_, n) => ({ queue, payload: { n }, retention: "1h" })));
  await gateway.settle(await gateway.claim(queue, { limit: count }), { outcome: "dead", error: "no route to host\n  after 3 s" });
};

const CONTROLS = ":is(a[href], button:not(:disabled), input:not(:disabled), select, textarea, summary)";
const NAMED = new Set(["button", "link", "textbox", "searchbox", "combobox", "checkbox", "spinbutton", "DisclosureTriangle", "table", "dialog"]);

/** What of the page no Tab reaches, what does not show that it is reached, and what has no name. */
async function faults(page) {
  await page.evaluate((controls) => {
    window.reached = new Set();
    window.unseen = new Set();
    const note = () => {
      const one = document.activeElement;
      window.reached.add(one);
      const style = getComputedStyle(one);
      if (one !== document.body && (style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 1)) window.unseen.add(one);
    };
    document.addEventListener("focusin", note);
    window.controls = () => [...(document.querySelector("dialog[open]") ?? document).querySelectorAll(controls)].filter((one) => one.checkVisibility());
    document.activeElement?.blur();
  }, CONTROLS);
  const count = await page.evaluate(() => window.controls().length);
  for (let presses = 0; presses < count * 2 + 10; presses += 1) await page.keyboard.press("Tab");
  const { missed, unseen } = await page.evaluate(() => ({
    missed: window.controls().filter((one) => !window.reached.has(one)).map((one) => one.outerHTML.slice(0, 120)),
    unseen: [...window.unseen].map((one) => one.outerHTML.slice(0, 120)),
  }));
  const session = await page.context().newCDPSession(page);
  const { nodes } = await session.send("Accessibility.getFullAXTree");
  const nameless = nodes.filter((node) => !node.ignored && NAMED.has(node.role?.value) && !node.name?.value?.trim()).map((node) => node.role.value);
  await session.detach();
  return { controls: count > 5 ? "some" : count, missed, unseen, nameless };
}
const NONE = { controls: "some", missed: [], unseen: [], nameless: [] };

test("Tab reaches every control of every page and of a dialog, shows where it stands, and each has a name", async () => {
  await dead("walk", 3);
  await gateway.enqueue({ queue: "walk", payload: { deep: { er: [1, 2] } }, delay: "1h", group: "g", unique: "u" });
  await gateway.claim("walk", { worker: { host: "app-1", slots: 2 } });
  const [one] = (await gateway.call("GET", "jobs?queue=walk&state=dead")).jobs;
  const pages = { "#/": ".queue-row[data-queue]", "#/queues/walk/dead": ".job[data-id]", "#/jobs?queue=walk&from=-1h": ".job[data-id], .joblist > .empty", [`#/jobs/${one.id}`]: ".attempts summary", "#/workers": ".worker .fold", "#/enqueue": "textarea" };
  for (const [path, sign] of Object.entries(pages)) {
    await visit(browser, gateway, path, async (page) => {
      await page.locator(sign).first().waitFor();
      await page.waitForLoadState("networkidle");
      // A list that is still being searched gets rows while one walks it: then anew.
      let found = await faults(page);
      for (let tries = 0; tries < 5 && found.missed.length > 0; tries += 1) found = await faults(page);
      assert.deepEqual(found, NONE, path);
    });
  }
  await visit(browser, gateway, "#/queues/walk/dead", async (page) => {
    await page.locator(".job[data-id] input").first().click();
    assert.deepEqual(await faults(page), NONE, "with a selection");
  });
  await visit(browser, gateway, "#/queues/walk/scheduled", async (page) => {
    await page.locator(".job[data-id] input").first().click();
    await page.locator("[data-action=reschedule]").click();
    await page.waitForSelector("dialog .big[data-changed='1']");
    assert.deepEqual(await faults(page), { ...NONE, controls: 3 }, "a dialog");
  });
  await visit(browser, gateway, "#/", async (page) => {
    await page.waitForSelector("form.login");
    await page.fill("input[name=token]", "x");
    assert.deepEqual(await faults(page), { ...NONE, controls: 4 }, "the login");
  }, { token: null, isLive: false });
});

test("a control without a name, and one that no Tab reaches, are found", async () => {
  await visit(browser, gateway, "#/enqueue", async (page) => {
    await page.evaluate(() => {
      const bad = document.createElement("button");
      bad.tabIndex = -1;
      document.querySelector("main").append(bad);
    });
    const found = await faults(page);
    assert.deepEqual([found.missed.length, found.nameless], [1, ["button"]]);
  });
});

test("one comes in, finds dead letters, redrives them and takes a job's edits, without a pointer", async () => {
  await dead("night", 3);
  await visit(browser, gateway, "#/", async (page) => {
    await page.waitForFunction(() => document.activeElement?.name === "token");
    await page.keyboard.type(gateway.token);
    await page.keyboard.press("Enter");
    await page.waitForSelector(".totals");
    const keys = async (...names) => {
      for (const name of names) await page.keyboard.press(name);
    };
    // Search, choose two, redrive.
    await keys("/");
    await page.keyboard.type("queue:night state:dead");
    await keys("Enter");
    await page.waitForFunction(() => document.querySelectorAll(".job[data-id]").length === 3);
    await keys("j", "x", "j", "x");
    await page.getByText("2 selected").waitFor();
    await keys("a");
    assert.equal(await page.evaluate(() => document.activeElement.dataset.action), "redrive");
    await keys("Enter");
    await page.waitForSelector("dialog .big[data-changed='2']");
    await press(page, "Redrive 2 jobs");
    await page.locator("dialog").waitFor({ state: "detached" });
    assert.deepEqual((({ ready, dead: left }) => [ready, left])(await gateway.counts("night")), [2, 1]);
    // A dialog that is left by Escape has done nothing, and the focus is where it was.
    await page.waitForFunction(() => document.querySelectorAll(".job[data-id]").length === 1);
    // Under Caps Lock a letter is as it would be without: this chooses one job, not all that match.
    await keys("j", "X");
    await page.getByText("1 selected").waitFor();
    await keys("Escape", "Shift+X", "a", "Enter");
    await page.waitForSelector("dialog .big[data-changed='1']");
    await keys("Escape");
    await page.locator("dialog").waitFor({ state: "detached" });
    assert.equal(await page.evaluate(() => document.activeElement.dataset.action), "redrive");
    assert.equal((await gateway.counts("night")).dead, 1);
    // Into the job, and its own buttons.
    await keys("Escape", "j", "Enter");
    await page.waitForSelector("[data-reason=dead]");
    await keys("a", "Enter");
    await page.waitForSelector("h1 + .s-ready");
    await press(page, "Priority");
    await page.waitForSelector("dialog input");
    await page.keyboard.press("ControlOrMeta+a");
    await page.keyboard.type("1");
    await page.waitForSelector("dialog .big[data-changed='1']");
    await press(page, "Priority 1 job");
    await page.locator(".notice").last().waitFor();
    await press(page, "Undo");
    await page.locator(".notices").getByText("1 job put back").waitFor();
    await press(page, "Cancel");
    await page.waitForSelector("dialog .big[data-changed='1']");
    await press(page, "Cancel 1 job");
    await page.waitForSelector("[data-reason=cancelled]");
    await press(page, "Delete");
    await page.waitForSelector("dialog .big[data-changed='1']");
    await press(page, "Delete 1 job");
    await page.getByText("No such job.").waitFor();
    // The queue: paused, resumed, purged.
    await page.evaluate(() => (location.hash = "#/queues/night"));
    await page.getByRole("heading", { name: "night" }).waitFor();
    await keys("a");
    await keys("Enter");
    await page.waitForSelector(".title .badge");
    await press(page, "Resume");
    await page.waitForFunction(() => !document.querySelector(".title .badge"));
    await press(page, "Purge");
    await press(page, "Cancel 2 jobs");
    await page.locator("dialog").waitFor({ state: "detached" });
    assert.equal((await gateway.counts("night")).ready, 0);
    // And a new job.
    await keys("e");
    await tabTo(page, "Queue");
    await page.keyboard.type("night");
    await press(page, "Enqueue");
    await page.waitForSelector("[data-verdict=created]");
  }, { token: null, isLive: false });
});

test("the keys go to every page, and are listed", async () => {
  await visit(browser, gateway, "#/", async (page) => {
    for (const [keys, path] of [["gj", "#/jobs"], ["gd", "#/jobs?state=dead"], ["gw", "#/workers"], ["ge", "#/enqueue"], ["go", "#/"]]) {
      await page.keyboard.press("Escape");
      await page.evaluate(() => document.activeElement?.blur());
      for (const key of keys) await page.keyboard.press(key);
      await page.waitForFunction((hash) => location.hash === hash, path);
    }
    await page.keyboard.press("?");
    await page.waitForSelector("dialog .keys");
    const listed = await page.locator("dialog .keys kbd").allInnerTexts();
    for (const key of ["/", "Enter", "x", "X", "a", "r", "g o", "g j", "g d", "g w", "e", "Esc", "?"]) assert.ok(listed.includes(key), key);
    await page.keyboard.press("Escape");
    await page.locator("dialog").waitFor({ state: "detached" });
  });
});
