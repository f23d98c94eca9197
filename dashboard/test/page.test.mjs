// The page in a real browser, against the stand-in for the gateway: a bad night that no test could
// cause on the real one. What is tested there, in `gateway`, is not tested here again.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { HOSTILE } from "../dev/seed.mjs";
import { start, stopAll } from "../dev/server.mjs";
import { launch, open } from "./browser.mjs";

let browser;
let gateway;
before(async () => {
  browser = await launch();
  gateway = await start({ jobs: 4_000, queues: 1_000, live: false });
});
after(async () => {
  await browser?.close();
  await stopAll();
});

const find = (wanted, of = gateway) => [...of.engine.jobs.values()].find(wanted);
const many = (wanted, of = gateway) => [...of.engine.jobs.values()].filter(wanted).length;
const live = (page) => page.waitForSelector(".live[data-live=live]");
const dead = (job) => job.queue === "webhooks" && job.state === "dead";

async function visit(path, options = {}, work) {
  const { page, complaints } = await open(browser, options.of?.url ?? gateway.url, { path, ...options });
  try {
    await work(page);
    assert.deepEqual(complaints.filter((one) => !options.allow?.test(one)), [], "errors, or what the policy refused");
  } finally {
    await page.close();
  }
}

const PAGES = () => ({
  overview: ["#/", ".totals"], queue: ["#/queues/webhooks", ".joblist .job"], jobs: ["#/jobs?state=dead", ".joblist .job"], job: [`#/jobs/${find(dead).id}`, ".explain li"], workers: ["#/workers", ".worker .fold"], enqueue: ["#/enqueue", "textarea"], engine: ["#/engine", "[data-ok]"], audit: ["#/audit", ".audit td"], unknown: ["#/nowhere/at/all", ".unknown"],
});

test("a page that breaks the policy is noticed", async () => {
  const { page, complaints } = await open(browser, gateway.url);
  await page.evaluate(() => document.body.insertAdjacentHTML("beforeend", `<p style="color:red" onclick="1">x</p>`));
  await page.waitForTimeout(200);
  assert.notDeepEqual(complaints, []);
  await page.close();
});

for (const language of ["en", "zh"]) {
  for (const name of ["overview", "queue", "jobs", "job", "workers", "enqueue", "engine", "audit", "unknown"]) {
    test(`${name} opens without an error in ${language}, and fits a phone`, async () => {
      const [path, sign] = PAGES()[name];
      const init = `localStorage.setItem("punctual.language", "${language}")`;
      await visit(path, { width: 390, height: 844, init }, async (page) => {
        await page.waitForSelector(sign);
        await live(page);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        assert.equal(wide, 0, "pixels wider than the phone");
        assert.equal(await page.evaluate(() => document.documentElement.lang), language === "zh" ? "zh-CN" : "en");
      });
    });
  }
}

test("what is wrong stands first and says what helps", async () => {
  await visit("#/", {}, async (page) => {
    const first = page.locator(".verdict li").first();
    await page.waitForSelector(".verdict li.bad");
    assert.match(await first.innerText(), /uploads\/video\s+70\d jobs due, the oldest for .*; no worker claims from this queue/);
    assert.match(await first.locator("code").innerText(), /^punctual work uploads\/video --exec CMD$/);
    assert.match(await page.locator(".verdict li.warn").first().innerText(), /search:index\s+paused while 60 jobs wait/);
  });
});

test("with nothing wrong the page says so in one line", async () => {
  const calm = await start({ jobs: 0, queues: 1, live: false });
  calm.engine.jobs.clear();
  calm.engine.counts.clear();
  for (const queue of calm.engine.queues.values()) queue.history = [];
  await visit("#/", { of: calm }, async (page) => {
    await page.waitForSelector(".verdict.ok");
    assert.equal(await page.locator(".verdict li").count(), 0);
  });
  await calm.stop();
});

test("a thousand queues are a table of which only what is seen is drawn", async () => {
  await visit("#/", {}, async (page) => {
    await page.waitForSelector(".queue-row[data-queue]");
    assert.equal(await page.locator(".queues [role=table]").getAttribute("aria-rowcount"), "1000");
    assert.ok((await page.locator(".queue-row[data-queue]").count()) < 80);
    await page.fill(".queues input[type=search]", "tenant-0977");
    await page.waitForFunction(() => document.querySelectorAll(".queue-row[data-queue]").length === 1);
    await page.fill(".queues input[type=search]", "");
    await page.getByRole("columnheader", { name: /^queue/ }).getByRole("button").click();
    await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
    await page.waitForSelector('.queue-row[data-queue="uploads/video"], .queue-row[data-queue="webhooks"]');
  });
});

test("a change is seen in the overview, the list and the job while the page is open", async () => {
  const job = find((one) => one.queue === "orders" && one.state === "scheduled");
  await visit(`#/jobs/${job.id}`, {}, async (page) => {
    await live(page);
    await page.waitForSelector("h1 + .s-scheduled");
    gateway.engine.move(job, "ready", { due: new Date().toISOString() });
    await page.waitForSelector("h1 + .s-ready", { timeout: 3_000 });
    await page.waitForSelector(".seen .s-ready");
    await page.goto(`${gateway.url}#/`);
    const held = () => page.locator(".total[data-state=held] b").innerText();
    await page.waitForSelector(".total[data-state=held]");
    const before = Number(await held());
    gateway.engine.enqueue({ queue: "mail", wait_for: ["x"] }, "{}");
    await page.waitForFunction((n) => Number(document.querySelector(".total[data-state=held] b").textContent) === n, before + 1, { timeout: 4_000 });
    await page.goto(`${gateway.url}#/jobs?queue=mail&state=held`);
    await page.waitForSelector(".joblist .job[data-id]");
    const rows = await page.locator(".joblist .job[data-id]").count();
    gateway.engine.enqueue({ queue: "mail", wait_for: ["y"] }, "{}");
    await page.waitForFunction((n) => document.querySelectorAll(".joblist .job[data-id]").length === n, rows + 1, { timeout: 6_000 });
  });
});

test("after the feed was cut the page says so, connects again and reads what it missed", async () => {
  await visit("#/", {}, async (page) => {
    await live(page);
    const before = Number(await page.locator(".total[data-state=held] b").innerText());
    for (const socket of gateway.sockets) socket.destroy();
    await page.waitForSelector(".live[data-live=lost]");
    gateway.engine.enqueue({ queue: "mail", wait_for: ["z"] }, "{}");
    await live(page);
    await page.waitForFunction((n) => Number(document.querySelector(".total[data-state=held] b").textContent) === n, before + 1, { timeout: 4_000 });
  });
});

test("a gateway that is gone is the first thing that the page says", async () => {
  const own = await start({ jobs: 300, queues: 8, live: false });
  // The browser itself complains of each connection that is refused.
  await visit("#/", { of: own, allow: /ERR_CONNECTION_REFUSED|ERR_EMPTY_RESPONSE|WebSocket/ }, async (page) => {
    await live(page);
    await own.stop();
    await page.waitForSelector(".live.down", { timeout: 15_000 });
    await page.waitForFunction(() => /has not answered/.test(document.querySelector(".verdict li")?.textContent ?? ""));
  });
});

test("all dead letters of a queue are counted by a dry run and then redriven", async () => {
  const own = await start({ jobs: 2_000, queues: 8, live: false });
  await visit("#/queues/webhooks/dead", { of: own }, async (page) => {
    await page.waitForSelector(".joblist .job[data-id]");
    await page.locator(".joblist .job[data-id] input").first().click();
    await page.getByRole("button", { name: "all that match (40)" }).click();
    await page.locator("[data-action=redrive]").click();
    await page.waitForSelector("dialog .big[data-changed='40']");
    assert.equal(many(dead, own), 40, "a dry run changes nothing");
    await page.getByRole("button", { name: "Redrive 40 jobs" }).click();
    await page.waitForSelector(".notice");
    assert.equal(many(dead, own), 0);
    assert.equal(many((job) => job.queue === "webhooks" && job.state === "ready" && job.failures === 0, own), 40);
    await page.waitForSelector(".joblist .empty");
  });
  await own.stop();
});

test("a rescheduled job is put back by undo", async () => {
  const job = find((one) => one.queue === "riders" && one.state === "scheduled");
  const { due } = job;
  await visit(`#/jobs/${job.id}`, {}, async (page) => {
    await page.locator("[data-action=reschedule]").click();
    await page.fill("dialog input", "2h");
    await page.getByRole("button", { name: "Reschedule 1 job" }).click();
    await page.waitForSelector(".notice");
    assert.notEqual(job.due, due);
    await page.getByRole("button", { name: "Undo" }).click();
    await page.waitForFunction(() => /put back/.test(document.querySelector(".notices")?.textContent ?? ""));
    assert.equal(job.due, due);
  });
});

test("a cancelled job is enqueued again by undo, its payload byte for byte", async () => {
  const job = find((one) => one.kind === "mail.big");
  await visit(`#/jobs/${job.id}`, {}, async (page) => {
    await page.locator("[data-action=cancel]").click();
    await page.getByRole("button", { name: "Cancel 1 job" }).click();
    await page.waitForSelector(".notice");
    assert.equal(job.state, "cancelled");
    await page.getByRole("button", { name: /Undo/ }).click();
    await page.waitForFunction(() => /put back/.test(document.querySelector(".notices")?.textContent ?? ""));
    const copy = find((one) => one.kind === "mail.big" && one.state === "scheduled");
    assert.equal(copy.payload, job.payload);
    assert.equal(copy.due, job.due);
  });
});

test("a job names the job whose settlement enqueued it, and a copy of it does not", async () => {
  const order = find((one) => one.kind === "orders.place");
  const receipt = find((one) => one.kind === "mail.receipt");
  await visit(`#/jobs/${receipt.id}`, {}, async (page) => {
    await page.locator(".parent").getByText("orders / orders.place").waitFor();
    await page.locator(".parent a").click();
    await page.getByRole("heading", { name: order.id }).waitFor();
    assert.equal(await page.locator(".parent").count(), 0);
  });
  // A copy was made by a person, and follows from nothing.
  await visit(`#/enqueue?copy=${receipt.id}`, {}, async (page) => {
    await page.waitForFunction(() => document.querySelector("textarea").value.includes("7001"));
    await page.getByRole("button", { name: "Enqueue", exact: true }).click();
    await page.waitForSelector("[data-verdict=created]");
    const copy = find((one) => one.kind === "mail.receipt" && one.id !== receipt.id);
    assert.equal(copy.headers?.["punctual-parent"], undefined);
  });
});

test("each page has one h1 and a title of its own, and an address of no page says so", async () => {
  const job = find(dead);
  const pages = {
    "#/": "Overview", "#/queues/webhooks": "webhooks", "#/jobs": "Jobs", "#/jobs?state=dead": "Dead letters", [`#/jobs/${job.id}`]: `Job ${job.id.slice(-8)}`, "#/workers": "Workers",
    "#/enqueue": "Enqueue a job", "#/engine": "Engine", "#/audit": "Audit", "#/nowhere": "No such page", "#/jobs/a/b": "No such page", "#/queues/webhooks/red": "No such page", "#/queues": "No such page",
    "#/jobs/00000000-0000-7000-8000-000000000000": "Job 00000000", "#/queues/none-such": "none-such",
  };
  await visit("#/", {}, async (page) => {
    for (const [path, name] of Object.entries(pages)) {
      await page.evaluate((hash) => (location.hash = hash), path);
      await page.waitForFunction((title) => document.title === title, `${name} · Punctual`).catch(() => {});
      assert.deepEqual([await page.title(), await page.locator("h1").count()], [`${name} · Punctual`, 1], path);
    }
    await page.evaluate(() => (location.hash = "#/nowhere"));
    await page.locator(".unknown").getByText("#/nowhere").waitFor();
    await page.locator(".unknown").getByRole("link", { name: "Jobs" }).click();
    await page.waitForSelector(".joblist");
  });
});

test("signs are drawn, and no text needs a font that a plain machine has not", async () => {
  const signs = /[\u2190-\u21ff\u2300-\u23ff\u25a0-\u27bf\u2900-\u2bff\u{1f300}-\u{1faff}]/u;
  const crashed = find((one) => one.crashes);
  for (const path of ["#/", "#/queues/webhooks", "#/jobs?state=dead", "#/jobs?queue=orders", `#/jobs/${crashed.id}`, "#/workers", "#/engine", "#/audit"]) {
    await visit(path, {}, async (page) => {
      await page.waitForSelector("main h1");
      await live(page);
      const found = await page.evaluate(() => [document.querySelector("header.bar").innerText, document.querySelector("main h1").parentElement.innerText, ...[...document.querySelectorAll("main *")].flatMap((one) => [getComputedStyle(one, "::before").content])].join(" "));
      assert.doesNotMatch(found, signs, path);
      assert.equal(await page.locator("header.bar .choices .icon").count(), 2, path);
    });
  }
});

test("a list shows what differs of ids, and the begin of each payload", async () => {
  const job = find((one) => one.kind === "mail.big");
  for (const width of [1360, 390]) {
    await visit("#/jobs?queue=mail&kind=mail.big", { width }, async (page) => {
      const row = page.locator(`.job[data-id="${job.id}"]`);
      await row.waitFor();
      assert.equal(await row.locator(".id").innerText(), width === 390 ? `…${job.id.slice(-8)}` : `${job.id.slice(0, 8)}…${job.id.slice(-8)}`);
      assert.ok(await row.locator(".id").evaluate((one) => one.scrollWidth <= one.clientWidth), "the whole of it is seen");
      assert.equal(await row.locator(".preview").textContent(), job.payload);
    });
  }
});

test("the search box finds a job by the last eight characters of its id", async () => {
  const job = find((one) => one.kind === "mail.big");
  await visit("#/", {}, async (page) => {
    await live(page);
    const search = async (text) => {
      await page.fill("header.bar input[type=search]", text);
      await page.keyboard.press("Enter");
    };
    await search(job.id.slice(-8).toUpperCase());
    await page.waitForFunction((id) => location.hash === `#/jobs/${id}`, job.id);
    // Characters that end no id are text in a payload.
    await search("ffffffff00000000");
    await page.waitForFunction(() => location.hash === "#/jobs?text=ffffffff00000000");
  });
});

test("a worker's bar counts what it has, even when it says that it runs nothing", async () => {
  const own = await start({ jobs: 0, queues: 8, live: false });
  Object.assign(own.engine.workers[1], { slots: 4, busy: 0, leased: 4 });
  Object.assign(own.engine.workers[0], { slots: 2, busy: 0, leased: 7 });
  await visit("#/workers", { of: own }, async (page) => {
    await page.waitForSelector(".worker .load .n");
    assert.deepEqual((await page.locator(".worker .load .n").allInnerTexts()).slice(0, 2), ["7/2", "4/4"]);
    assert.equal(await page.locator(".worker progress.full").count(), 2);
  });
  await visit("#/", { of: own }, async (page) => {
    await page.waitForSelector(".totals");
    assert.equal(await page.locator('.totals a[href="#/workers"]').getAttribute("title"), "6 of 14 slots");
  });
  await own.stop();
});

test("a queue is counted by kind", async () => {
  await visit("#/queues/mail", {}, async (page) => {
    await page.locator("[data-view=kinds]").click();
    const row = page.locator(".kinds [data-kind='mail.send']");
    await row.waitFor();
    const deadMail = many((one) => one.queue === "mail" && one.kind === "mail.send" && one.state === "dead");
    assert.equal(await row.locator(".s-dead").innerText(), String(deadMail));
    await row.locator(".s-dead").click();
    await page.waitForFunction((wanted) => document.querySelectorAll(".joblist .job[data-id]").length === wanted, deadMail);
  });
});

test("the payload of a waiting job is changed, and put back by undo", async () => {
  const job = find((one) => one.queue === "riders" && one.state === "scheduled");
  const before = job.payload;
  await visit(`#/jobs/${job.id}`, {}, async (page) => {
    await page.locator("[data-action=payload]").click();
    assert.equal(await page.inputValue("dialog textarea"), before);
    await page.fill("dialog textarea", "{nope");
    assert.ok(await page.getByRole("button", { name: "Save" }).isDisabled());
    const payload = '{"n": 9007199254740993}';
    await page.fill("dialog textarea", payload);
    await page.getByRole("button", { name: "Save" }).click();
    await page.locator(".notices").getByText("payload changed").waitFor();
    assert.equal(job.payload, payload);
    await page.locator(".tree").getByText("9007199254740993").waitFor();
    await page.getByRole("button", { name: "Undo" }).click();
    await page.locator(".notices").getByText("1 job put back").waitFor();
    assert.equal(job.payload, before);
  });
  await visit(`#/jobs/${find(dead).id}`, {}, async (page) => {
    await page.waitForSelector("[data-action=redrive]");
    assert.equal(await page.locator("[data-action=payload]").count(), 0, "it has ended");
  });
});

test("a cancelled job that is still kept is redriven", async () => {
  const job = find((one) => one.queue === "riders" && one.state === "cancelled");
  await visit(`#/jobs/${job.id}`, {}, async (page) => {
    await page.locator("[data-action=redrive]").click();
    await page.waitForSelector(".why.s-ready");
    assert.equal(job.state, "ready");
  });
});

test("a queue without jobs is deleted, one with jobs is not", async () => {
  const own = await start({ jobs: 0, queues: 9, live: false });
  const empty = [...own.engine.queues.keys()].at(-1);
  for (const job of [...own.engine.jobs.values()]) if (job.queue === empty) own.engine.edit("delete", { ids: [job.id] });
  await visit("#/queues/mail", { of: own }, async (page) => {
    await page.locator("[data-action=delete-queue]").click();
    await page.getByText("It still has jobs").waitFor();
    assert.ok(await page.getByRole("button", { name: "Delete the queue" }).isDisabled());
  });
  await visit(`#/queues/${empty}`, { of: own }, async (page) => {
    await page.locator("[data-action=delete-queue]").click();
    await page.getByRole("button", { name: "Delete the queue" }).click();
    await page.waitForSelector(".totals");
    assert.ok(!own.engine.queues.has(empty));
  });
  await own.stop();
});

test("dead letters are grouped by kind and error, and a group leads to its jobs", async () => {
  await visit("#/jobs?state=dead", {}, async (page) => {
    const group = page.locator(".dead-groups li").first();
    await group.waitFor();
    assert.match((await group.innerText()).replaceAll(/\s+/g, " "), /^40 webhooks webhooks.deliver POST https:\/\/shop.example\/hook: # Service Unavailable, after #.# s/);
    await group.locator(".many").click();
    await page.waitForFunction(() => document.querySelector(".joblist .count")?.textContent === "40 jobs");
    assert.match(await page.inputValue("[name=error]"), /shop\.example/);
    await page.locator(".job[data-id] input").first().click();
    await page.getByRole("button", { name: /^all that match/ }).click();
    await page.locator("[data-action=redrive]").click();
    await page.waitForSelector("dialog .big[data-changed='40']");
  });
  await visit("#/queues/webhooks/dead", {}, async (page) => {
    await page.waitForSelector(".dead-groups li");
    assert.equal(await page.locator(".dead-groups li").count(), 1, "all forty have one cause");
  });
});

test("a queue shows which jobs ended last", async () => {
  await visit("#/queues/webhooks", {}, async (page) => {
    await page.locator("[data-view=ends]").click();
    await page.waitForSelector(".ends li");
    const latest = await page.locator(".ends li").first().getAttribute("data-id");
    const settled = many((one) => one.queue === "webhooks" && one.finished_at);
    assert.equal(await page.locator(".ends li").count(), Math.min(100, settled));
    await page.locator(".ends a.id").first().click();
    await page.getByRole("heading", { name: latest }).waitFor();
  });
});

test("settings of a queue are changed, and a change by another is not written over", async () => {
  const own = await start({ jobs: 0, queues: 8, live: false });
  await visit("#/queues/mail", { of: own }, async (page) => {
    await page.locator("[data-action=settings]").click();
    await page.locator("dialog [name=max_pending]:enabled").fill("0");
    assert.ok(await page.getByRole("button", { name: "Save" }).isDisabled());
    await page.locator("dialog [name=max_pending]").fill("5000");
    await page.locator("dialog [name=on_full]").selectOption("dead_letter_oldest");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("at most 5,000 pending").waitFor();
    assert.deepEqual(own.engine.settings.get("mail"), { on_full: "dead_letter_oldest", max_pending: 5_000, version: 1 });
    await page.locator("[data-action=settings]").click();
    await page.locator("dialog [name=max_pending]:enabled").fill("");
    own.engine.settings.set("mail", { on_full: "refuse", max_pending: 7, version: 2 });
    await page.getByRole("button", { name: "Save" }).click();
    await page.locator("dialog").getByText("changed in the meantime").waitFor();
    await page.waitForFunction(() => document.querySelector("[name=max_pending]").value === "7");
    await page.locator("dialog [name=max_pending]").fill("");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("pending without limit").waitFor();
    assert.deepEqual(own.engine.settings.get("mail"), { on_full: "refuse", version: 3 });
  }, );
  await own.stop();
});

test("settings typed at the first moment are not written over by their read", async () => {
  const own = await start({ jobs: 0, queues: 8, live: false });
  await visit("#/queues/mail", { of: own }, async (page) => {
    await page.evaluate(() => {
      const watch = new MutationObserver(() => {
        const field = document.querySelector("dialog [name=max_pending]:enabled");
        if (!field) return;
        watch.disconnect();
        field.value = "5000";
        field.dispatchEvent(new InputEvent("input", { bubbles: true }));
      });
      watch.observe(document.body, { subtree: true, childList: true, attributes: true });
    });
    await page.locator("[data-action=settings]").click();
    await page.waitForFunction(() => document.querySelector("dialog [name=max_pending]:enabled")?.value === "5000");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("at most 5,000 pending").waitFor();
  });
  await own.stop();
});

test("the engine page has version, memory, durability and shards; the audit page who changed what", async () => {
  await visit("#/engine", {}, async (page) => {
    await page.waitForSelector("[data-ok=true]");
    const text = await page.locator("main").innerText();
    for (const part of [/version\s+0\.1\.0/, /durability\s+memory Jobs are lost when the process ends/, /shards\s+1/, /memory of the process\s+71 MB/, /payload_bytes\s+1 MB/]) assert.match(text, part);
  });
  await visit("#/audit", {}, async (page) => {
    await page.waitForSelector(".audit tbody tr");
    const rows = (await page.locator(".audit tbody tr").allInnerTexts()).map((row) => row.replaceAll(/\s+/g, " "));
    assert.match(rows[0], /ann redrive jobs queue=webhooks .* 12$/);
    assert.match(rows[2], /deploy write queue\/orders version_conflict$/);
    assert.match(rows[3], /interrupted\?$/);
    await page.fill("main input[type=search]", "bob");
    await page.waitForFunction(() => document.querySelectorAll(".audit tbody tr").length === 1);
  });
  const reader = await start({ jobs: 0, queues: 1, live: false, scopes: ["read"] });
  await visit("#/", { of: reader }, async (page) => {
    await page.waitForSelector(".totals");
    await page.waitForFunction(() => !document.querySelector('nav a[href="#/audit"]'));
  });
  await reader.stop();
});

test("a copy has what no field shows, a payload that is no JSON too", async () => {
  const own = await start({ jobs: 0, queues: 1, live: false });
  const job = find((one) => one.kind === "mail.raw", own);
  job.headers = { traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" };
  job.retry = { policy: "fixed", base: "7s" };
  await visit(`#/enqueue?copy=${job.id}`, { of: own }, async (page) => {
    await page.waitForFunction(() => document.querySelector(".enqueue")?.innerText.includes("byte for byte"));
    await page.getByRole("button", { name: "Enqueue", exact: true }).click();
    await page.waitForSelector("[data-verdict=created]");
    const copy = find((one) => one.kind === "mail.raw" && one.id !== job.id, own);
    for (const name of ["payload_base64", "content_type", "headers", "retry"]) assert.deepEqual(copy[name], job[name], name);
  });
  await own.stop();
});

test("a job whose payload was dropped is not copied as an empty one", async () => {
  const own = await start({ jobs: 0, queues: 1, live: false });
  const { id } = find((one) => one.kind === "mail.big", own);
  own.engine.jobs.set(id, { id, queue: "mail", kind: "mail.big", state: "completed", tombstone: true });
  await visit(`#/enqueue?copy=${id}`, { of: own }, async (page) => {
    await page.waitForFunction(() => document.querySelector("[role=alert]")?.textContent.includes("there is nothing to copy"));
    await page.fill("[name=queue]", "mail");
    assert.equal(await page.getByRole("button", { name: "Enqueue", exact: true }).isEnabled(), false);
  });
  await own.stop();
});

test("every attempt is shown, the latest first, with its worker and error, and what is not kept", async () => {
  const rows = (page) => page.locator(".attempts tbody tr");
  const stubborn = find((one) => one.kind === "mail.stubborn");
  await visit(`#/jobs/${stubborn.id}`, {}, async (page) => {
    await page.waitForFunction(() => document.querySelector(".attempts")?.innerText.includes("app-2.shanghai"));
    const text = (await rows(page).allInnerTexts()).map((row) => row.replaceAll(/\s+/g, " ").trim());
    assert.match(text[0], /^14 snoozed .* 14 s app-2\.shanghai$/);
    assert.match(text[1], /^13 failed .* 13 s 5f0c6a1e$/);
    assert.equal(text[2], "smtp said 451 try again");
    assert.deepEqual(text.filter((row) => /not kept/.test(row)), ["attempts 2 to 5 are not kept"]);
    assert.equal(text.at(-1), "no route to host");
  });
  await visit(`#/jobs/${find(dead).id}`, {}, async (page) => {
    await page.waitForSelector(".attempts summary");
    assert.match((await rows(page).allInnerTexts()).join("\n"), /crashed[^]*its lease expired/);
    assert.equal(await page.getByText("caused by: upstream connect error").nth(1).isVisible(), false);
    await page.locator(".attempts summary").first().click();
    assert.equal(await page.getByText("caused by: upstream connect error").nth(1).isVisible(), true);
  });
  const active = find((one) => one.state === "active");
  await visit(`#/jobs/${active.id}`, {}, async (page) => {
    await page.waitForFunction(() => document.querySelector(".attempts")?.innerText.includes("app-1.shanghai"));
    assert.match((await rows(page).first().innerText()).replaceAll(/\s+/g, " "), /^1 runs .* app-1\.shanghai$/);
    assert.equal(await rows(page).count(), 1);
  });
});

test("payloads, errors, keys and headers of others are text and nothing else", async () => {
  for (const [index, text] of HOSTILE.entries()) {
    const job = find((one) => one.last_error === text);
    await visit(`#/jobs/${job.id}`, {}, async (page) => {
      await page.waitForSelector(".tree");
      await page.getByRole("button", { name: "text", exact: true }).click();
      const seen = await page.evaluate(() => ({
        pwned: window.pwned, foreign: document.querySelectorAll("main :is(script, img, svg:not(.icon), iframe, object, embed, style, link)").length, text: document.querySelector("main").innerText,
      }));
      assert.equal(seen.pwned, undefined);
      assert.equal(seen.foreign, 0);
      if (index < 5) assert.ok(seen.text.includes(text), `${text} is to be read`);
      assert.ok(!/[\u202a-\u202e\u2066-\u2069\u200b\u001b]/.test(seen.text), "what hides or turns text is written as its number");
    });
  }
  await visit("#/jobs?queue=mail&state=dead", {}, async (page) => {
    await page.waitForSelector(".joblist .job[data-id]");
    assert.equal(await page.evaluate(() => window.pwned), undefined);
    assert.equal(await page.locator("main :is(script, img, svg:not(.icon), iframe)").count(), 0);
  });
});

test("numbers beyond 2^53 and repeated names are shown as they were sent", async () => {
  const job = find((one) => one.kind === "mail.big");
  await visit(`#/jobs/${job.id}`, {}, async (page) => {
    const tree = await page.locator(".tree").innerText();
    assert.match(tree, /big: 12345678901234567890\.10/);
    assert.equal(tree.match(/same: /g).length, 2);
    await page.getByRole("button", { name: "text", exact: true }).click();
    assert.equal(await page.locator("main pre").first().innerText(), job.payload);
  });
});

test("a search finds by id, queue, kind, text, unique and group key, and time", async () => {
  const job = find((one) => one.group && one.state === "ready");
  await visit("#/", {}, async (page) => {
    const search = async (text) => {
      await page.waitForSelector(".totals, .joblist, .why");
      await page.keyboard.press("Escape");
      await page.keyboard.press("/");
      await page.keyboard.type(text);
      await page.keyboard.press("Enter");
    };
    await page.waitForSelector(".totals");
    await search(job.id);
    await page.getByRole("heading", { name: job.id }).waitFor();
    await search("riders");
    await page.getByRole("heading", { name: "riders" }).waitFor();
    const onlyRow = (id) => page.waitForFunction((one) => [...document.querySelectorAll(".joblist .job[data-id]")].map((row) => row.dataset.id).join() === one, id);
    await search("queue:orders group:customer:42 state:ready");
    await onlyRow(job.id);
    const keyed = find((one) => one.queue === "orders" && one.unique && one.state === "scheduled");
    await search(`queue:orders unique:${keyed.unique}`);
    await onlyRow(keyed.id);
    await search(`queue:mail kind:mail.raw`);
    await onlyRow(find((one) => one.kind === "mail.raw").id);
    await search(`queue:orders "order\\":7001"`);
    await page.waitForSelector(".joblist");
    await search(`queue:orders state:held from:-1h before:2h`);
    await onlyRow(find((one) => one.queue === "orders" && one.state === "held").id);
  });
});

test("the form enqueues, keeps the payload byte for byte and refuses what is no JSON", async () => {
  await visit("#/enqueue?queue=mail", {}, async (page) => {
    await page.fill("textarea", "{nope");
    assert.ok(await page.getByRole("button", { name: "Enqueue" }).isDisabled());
    const payload = '{"n": 9007199254740993,  "to":"ann"}';
    await page.fill("textarea", payload);
    await page.fill("input[name=due]", "30m");
    await page.fill("input[name=kind]", "mail.form");
    await page.getByRole("button", { name: "Enqueue" }).click();
    await page.waitForSelector("[data-verdict=created]");
    const job = find((one) => one.kind === "mail.form");
    assert.equal(job.payload, payload);
    assert.equal(job.state, "scheduled");
    await page.fill("input[name=queue]", "no spaces");
    await page.getByRole("button", { name: "Enqueue" }).click();
    await page.getByText("use 1 to 128 of").waitFor();
  });
});

test("dark and light differ, and the choice stays", async () => {
  await visit("#/", {}, async (page) => {
    const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const seen = new Set();
    for (let turn = 0; turn < 3; turn += 1) {
      seen.add(await back());
      await page.locator(".choices button").first().click();
      await page.waitForTimeout(50);
    }
    assert.equal(seen.size, 2);
    await page.locator(".choices button").first().click();
    const chosen = await page.evaluate(() => document.documentElement.dataset.theme);
    await page.reload();
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), chosen);
  });
});
