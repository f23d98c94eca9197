// Every page and what may be done on it, on the real gateway.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { launch } from "../browser.mjs";
import { run, serve, stopAll, total, visit } from "./serve.mjs";

let gateway;
let browser;
before(async () => {
  browser = await launch();
  gateway = await serve();
});
after(async () => {
  await browser?.close();
  await stopAll();
});

const onPage = (path, work, options) => visit(browser, gateway, path, work, options);
const notice = (page, text) => page.locator(".notices").getByText(text).waitFor();

test("each page opens, dark and light, in English and Chinese, and fits a phone", async () => {
  const { id } = await gateway.enqueue({ queue: "open", payload: { n: 1 }, delay: "5m" });
  await gateway.call("PUT", "schedules/open", { cron: ["0 9 * * MON"], zone: "Europe/Berlin", job: { queue: "open", payload: {} } });
  await gateway.call("POST", "flows", { name: "open", steps: ["one", "two"].map((name) => ({ name, job: { queue: "open", delay: "5m" }, after: name === "two" ? ["one"] : [] })) });
  await gateway.call("PUT", "limits/open", { concurrency: 4 });
  const pages = {
    "#/": ".totals", "#/queues/open": ".joblist .job[data-id]", "#/jobs?queue=open": ".joblist .job[data-id]", [`#/jobs/${id}`]: ".explain li", "#/workers": ".workers", "#/schedules": ".schedules tbody tr", "#/schedules/open": "[data-action=run]", "#/flows": "tr[data-flow]", "#/flows/open": ".graph .node", "#/limits": "tr[data-named-limit]", "#/relays": ".empty code", "#/enqueue": "textarea", "#/engine": "[data-ok]", "#/audit": "main h1", "#/nowhere": ".unknown",
  };
  for (const [theme, language, width] of [["dark", "en", 1360], ["light", "zh", 390]]) {
    const init = `localStorage.setItem("punctual.theme", "${theme}"); localStorage.setItem("punctual.language", "${language}")`;
    for (const [path, sign] of Object.entries(pages)) {
      await onPage(path, async (page) => {
        await page.waitForSelector(sign);
        assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth), 0, `${path}: pixels wider than ${width}`);
        // What scrolls goes under the bar on top, none of it over that.
        await page.setViewportSize({ width, height: 300 });
        await page.evaluate(() => (document.querySelector(".bars") ?? document.querySelector("main").lastElementChild).scrollIntoView());
        const over = await page.evaluate(() => [...document.querySelectorAll("header.bar *")].filter((one) => {
          const { x, y, width: wide, height } = one.getBoundingClientRect();
          const top = wide && height ? document.elementFromPoint(x + wide / 2, y + height / 2) : null;
          return top && !top.closest("header.bar");
        }).length);
        assert.equal(over, 0, `${path}: something lies over the bar on top`);
        assert.equal(await page.evaluate(() => document.documentElement.lang), language === "zh" ? "zh-CN" : "en");
      }, { init, width });
    }
  }
});

test("on a phone what may be done with a selection stays in sight, however far one has scrolled", async () => {
  await gateway.enqueue(Array.from({ length: 30 }, (_, n) => ({ queue: "thumb", payload: { n }, delay: "1h" })));
  await onPage("#/jobs?queue=thumb&state=scheduled", async (page) => {
    const pick = page.locator(".job[data-id] input").nth(12);
    await pick.scrollIntoViewIfNeeded();
    const top = () => pick.evaluate((one) => one.getBoundingClientRect().top);
    const before = await top();
    await pick.click();
    await page.waitForSelector(".picked");
    assert.ok(Math.abs((await top()) - before) < 8, "the rows stay where they were");
    const isInSight = (one) => {
      const { x, y, width, height } = one.getBoundingClientRect();
      return document.elementFromPoint(x + width / 2, y + height / 2) === one;
    };
    for (const action of ["run_now", "reschedule", "reprioritise", "cancel"]) assert.ok(await page.locator(`[data-action=${action}]`).evaluate(isInSight), action);
    // And the rows in reach.
    await page.locator(".job[data-id] input").nth(11).click();
    await page.getByText("2 selected").waitFor();
  }, { width: 390, height: 844 });
});

test("a job that curl puts in appears in an open list, and on the overview, without a reload", async () => {
  const curl = (name) =>
    promisify(execFile)("curl", ["-sSf", `${gateway.url}v1/jobs`, "-H", `Authorization: Bearer ${gateway.token}`, "-H", "Content-Type: application/json", "-d", `{"queue":"curled","kind":"${name}","payload":{}}`]);
  await curl("first");
  await onPage("#/queues/curled/ready", async (page) => {
    await page.waitForSelector(".job[data-id]");
    await page.evaluate(() => (window.sameDocument = true));
    await curl("second");
    await page.locator(".job .kind", { hasText: "second" }).waitFor();
    assert.ok(await page.evaluate(() => window.sameDocument));
  });
  await onPage("#/", async (page) => {
    const ready = page.locator(".queue-row[data-queue=curled] .s-ready");
    assert.equal(await ready.innerText(), "2");
    await page.evaluate(() => (window.sameDocument = true));
    await curl("third");
    await page.waitForFunction(() => document.querySelector(".queue-row[data-queue=curled] .s-ready").textContent === "3");
    assert.ok(await page.evaluate(() => window.sameDocument));
  });
});

test("jobs, their death and their redrive are seen as they happen", async () => {
  const own = await serve();
  await visit(browser, own, "#/", async (page) => {
    await page.waitForSelector(".totals");
    await own.enqueue([1, 2, 3].map((n) => ({ queue: "mail", kind: "mail.send", payload: { n } })));
    await total(page, "ready", 3);
    const claimed = await own.claim("mail", { limit: 3 });
    await total(page, "active", 3);
    await own.settle(claimed, { outcome: "dead", error: "smtp said 550" });
    await total(page, "dead", 3);
  });
  await visit(browser, own, "#/queues/mail/dead", async (page) => {
    await page.locator(".joblist .job[data-id] input").first().click();
    await page.getByRole("button", { name: "all that match (3)" }).click();
    await page.locator("[data-action=redrive]").click();
    await page.waitForSelector("dialog .big[data-changed='3']");
    await page.locator("dialog").getByText("This cannot be undone.").waitFor();
    assert.equal((await own.counts("mail")).dead, 3, "a dry run changes nothing");
    await page.getByRole("button", { name: "Redrive 3 jobs" }).click();
    await page.waitForSelector(".notice");
    assert.equal((await own.counts("mail")).ready, 3);
    await page.locator(".joblist > .empty").waitFor();
  });
  await own.stop();
});

test("a bulk edit is counted dry, done to exactly those, and undone where it can be", async () => {
  const { receipts } = await gateway.enqueue([1, 2, 3, 4, 5].map((n) => ({ queue: "bulk", payload: { n }, delay: `${n}h` })));
  const dues = async () => (await gateway.call("GET", "jobs?queue=bulk&state=scheduled")).jobs.map((job) => job.due);
  const before = await dues();
  await onPage("#/queues/bulk/scheduled", async (page) => {
    await page.locator(".job[data-id] input").first().click();
    await page.getByRole("button", { name: "all that match (5)" }).click();
    await page.locator("[data-action=reschedule]").click();
    await page.fill("dialog input", "2d");
    await page.waitForSelector("dialog .big[data-changed='5']");
    assert.deepEqual(await dues(), before, "a dry run changes nothing");
    await page.getByRole("button", { name: "Reschedule 5 jobs" }).click();
    await page.getByRole("button", { name: "Undo" }).waitFor();
    assert.ok((await dues()).every((due) => !before.includes(due)));
    await page.getByRole("button", { name: "Undo" }).click();
    await notice(page, "5 jobs put back");
    assert.deepEqual(await dues(), before);
    // Two of them are cancelled, and enqueued again by undo.
    await page.locator(".job[data-id] input").first().click();
    await page.locator(".job[data-id] input").nth(1).click();
    await page.locator("[data-action=cancel]").click();
    await page.getByRole("button", { name: "Cancel 2 jobs" }).click();
    await page.getByRole("button", { name: "Undo: enqueue again" }).click();
    await notice(page, "2 jobs put back");
    assert.deepEqual(await dues(), before);
  });
  const states = await Promise.all(receipts.map(async ({ id }) => (await gateway.job(id)).state));
  assert.deepEqual(states, ["cancelled", "cancelled", "scheduled", "scheduled", "scheduled"]);
});

test("each button of one job does what it says, and its undo", async () => {
  const { id } = await gateway.enqueue({ queue: "one", payload: { n: 1 }, delay: "1h", priority: 5 });
  const { due } = await gateway.job(id);
  await onPage(`#/jobs/${id}`, async (page) => {
    const press = (action) => page.locator(`[data-action=${action}]`).click();
    const undo = async () => {
      await page.getByRole("button", { name: "Undo" }).click();
      await notice(page, "1 job put back");
      await page.locator(".notice").last().getByLabel("Close").click();
    };
    await press("run_now");
    await page.waitForSelector("h1 + .s-ready");
    await undo();
    await page.waitForSelector("h1 + .s-scheduled");
    assert.equal((await gateway.job(id)).due, due);
    await press("reschedule");
    await page.fill("dialog input", "now");
    await page.getByRole("button", { name: "Reschedule 1 job" }).click();
    await page.waitForSelector("h1 + .s-ready");
    await undo();
    assert.equal((await gateway.job(id)).due, due);
    await press("reprioritise");
    await page.fill("dialog input", "0");
    await page.getByRole("button", { name: "Priority 1 job" }).click();
    await page.getByRole("button", { name: "Undo" }).waitFor();
    assert.equal((await gateway.job(id)).priority, 0);
    await undo();
    assert.equal((await gateway.job(id)).priority, 5);
    await press("run_now");
    await page.waitForSelector("h1 + .s-ready");
    await gateway.settle(await gateway.claim("one"), { outcome: "dead", error: "no" });
    await press("redrive");
    await page.waitForSelector("h1 + .s-ready");
    await gateway.settle(await gateway.claim("one"), { outcome: "dead", error: "no" });
    await press("delete");
    await page.getByRole("button", { name: "Delete 1 job" }).click();
    await page.getByText("No such job.").waitFor();
  });
  assert.equal((await gateway.counts("one"))?.dead ?? 0, 0);
});

test("an active job is asked to stop, and says so", async () => {
  const { id } = await gateway.enqueue({ queue: "stop", payload: {} });
  const claimed = await gateway.claim("stop");
  await onPage(`#/jobs/${id}`, async (page) => {
    await page.waitForSelector("[data-reason=active]");
    await page.locator("[data-action=cancel]").click();
    await page.getByRole("button", { name: "Cancel 1 job" }).click();
    await page.locator(".title .badge", { hasText: "cancel requested" }).waitFor();
    await gateway.settle(claimed, { outcome: "cancelled", stopped: "token" });
    await page.waitForSelector("[data-reason=cancelled]");
    await page.getByText("its handler saw the request and ended").waitFor();
  });
});

test("each attempt of a job is shown, with its error and its worker's host", async () => {
  const { id } = await gateway.enqueue({ queue: "tries", payload: {} });
  const ends = [{ outcome: "retry", after: "0s", error: "no route to host" }, { outcome: "released" }, { outcome: "dead", error: "550 no such user" }];
  for (const end of ends) await gateway.settle(await gateway.claim("tries", { worker: { host: "app-7" } }), end);
  await onPage(`#/jobs/${id}`, async (page) => {
    await page.waitForFunction(() => document.querySelector(".attempts")?.innerText.includes("app-7"));
    const rows = (await page.locator(".attempts tbody tr").allInnerTexts()).map((row) => row.replaceAll(/\s+/g, " ").trim());
    const begins = ["3 failed for good", "550 no such user", "2 released", "1 failed", "no route to host"];
    assert.deepEqual(rows.map((row, nth) => row.slice(0, begins[nth].length)), begins);
  });
});

test("what a command wrote is shown: as the error of a failed attempt, as the result of the one that ended well", async () => {
  const { id } = await gateway.enqueue({ queue: "shell", payload: {}, retention: "1h", retry: { policy: "fixed", span: "1ms", jitter: false } });
  const command = 'if [ "$PUNCTUAL_ATTEMPT" = 1 ]; then echo "the disk is on fire" >&2; exit 3; fi; echo "{\\"pages\\":12345678901234567890}"';
  const worker = run(["work", "shell", "--exec", command, "--engine", gateway.url.slice(0, -1)], { PUNCTUAL_TOKEN: gateway.token });
  await onPage(`#/jobs/${id}`, async (page) => {
    await page.waitForSelector("[data-reason=completed]");
    await page.locator(".attempts [data-outcome=completed]").waitFor();
    const shown = await page.locator(".attempts").innerText();
    assert.match(shown, /exit status 3/);
    await page.locator(".attempts").getByText("the disk is on fire").waitFor({ state: "attached" });
    await page.locator(".panel", { hasText: "Result" }).getByText("12345678901234567890").waitFor();
  });
  await worker.stop();
});

test("a job leads back to the one whose settlement enqueued it", async () => {
  const { id } = await gateway.enqueue({ queue: "shop", kind: "order.paid", payload: { order: 7 }, retention: "1h" });
  const effects = [{ enqueue: { queue: "next", kind: "receipt", payload: {}, delay: "1h" } }];
  const answer = await gateway.settle(await gateway.claim("shop"), { outcome: "completed", effects });
  const child = answer.leases[0].settlements[0].effects[0].id;
  await onPage(`#/jobs/${child}`, async (page) => {
    await page.locator(".parent .s-completed").waitFor();
    await page.locator(".parent a").click();
    await page.getByRole("heading", { name: id }).waitFor();
    // A job whose parent is gone still names it.
    await gateway.call("DELETE", `jobs/${id}?forget=true`);
    await page.goto(`${gateway.url}#/jobs/${child}`);
    await page.locator(".parent").getByText("no longer kept").waitFor();
  });
});

test("kinds, settings, the engine and the audit record are those of the gateway", async () => {
  const own = await serve();
  await own.enqueue([{ queue: "mail", kind: "send", payload: { to: "ann" } }, { queue: "mail", kind: "send", delay: "1h" }, { queue: "mail", kind: "bounce" }]);
  await visit(browser, own, "#/queues/mail", async (page) => {
    await page.locator(".job .preview", { hasText: '{"to":"ann"}' }).waitFor();
    await page.locator("[data-view=kinds]").click();
    await page.locator(".kinds [data-kind=send] .s-ready").waitFor();
    assert.equal(await page.locator(".kinds [data-kind=send] .s-scheduled").innerText(), "1");
    await page.locator("[data-action=settings]").click();
    await page.locator("dialog [name=max_pending]:enabled").fill("5");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("at most 5 pending").waitFor();
    assert.equal((await own.call("GET", "queues/settings?queue=mail")).max_pending, 5);
  });
  await visit(browser, own, "#/audit", async (page) => {
    await page.locator(".audit tbody tr", { hasText: "queue/mail" }).waitFor();
  });
  await visit(browser, own, "#/engine", async (page) => {
    await page.waitForSelector("[data-ok=true]");
    assert.match(await page.locator("main").innerText(), /engine\s+memory[^]*shards\s+1[^]*memory of the process\s+[\d.]+ MB/);
  });
  await own.stop();
});

test("a queue shows the job that just ran, although nothing of it is kept", async () => {
  const own = await serve();
  const { id } = await own.enqueue({ queue: "mail", kind: "send", payload: { n: 1 } });
  await own.settle(await own.claim("mail"), { outcome: "completed" });
  await visit(browser, own, "#/queues/mail", async (page) => {
    await page.locator(`.ends li[data-id="${id}"] .s-completed`).waitFor();
  });
  await own.stop();
});

test("four jobs of a worker that never says how busy it is fill its four slots", async () => {
  const own = await serve();
  await own.enqueue([1, 2, 3, 4].map((n) => ({ queue: "mail", payload: { n } })));
  const worker = { id: "0f1e7c3e-8a51-4c3e-8000-3f0f4c1d2b99", host: "example", version: "1", kinds: [], slots: 4 };
  await own.claim("mail", { limit: 4, lease_duration: "5m", worker });
  await visit(browser, own, "#/workers", async (page) => {
    await page.waitForSelector(".worker progress.full");
    assert.equal(await page.locator(".worker .load .n").innerText(), "4/4");
  });
  await own.stop();
});

test("the form enqueues, the job explains itself, is delayed and put back, and cancelled", async () => {
  await onPage("#/enqueue?queue=orders", async (page) => {
    await page.fill("textarea", '{"n": 9007199254740993}');
    await page.fill("input[name=due]", "30m");
    await page.getByRole("button", { name: "Enqueue" }).click();
    await page.waitForSelector("[data-verdict=created]");
    await page.getByRole("link", { name: "Open the job" }).click();
    await page.waitForSelector("[data-reason=not_due]");
    await page.locator("main .tree").getByText("9007199254740993").waitFor();
    await page.locator("[data-action=reschedule]").click();
    await page.fill("dialog input", "2h");
    await page.getByRole("button", { name: "Reschedule 1 job" }).click();
    await page.getByRole("button", { name: "Undo" }).click();
    await notice(page, "1 job put back");
    await page.locator("[data-action=cancel]").click();
    await page.getByRole("button", { name: "Cancel 1 job" }).click();
    await page.waitForSelector("[data-reason=cancelled]");
    await page.getByRole("link", { name: "Enqueue a copy…" }).click();
    await page.waitForFunction(() => document.querySelector("textarea").value.includes("9007199254740993"));
    await page.getByRole("button", { name: "Enqueue", exact: true }).click();
    await page.waitForSelector("[data-verdict=created]");
  });
});

test("a blocked limit is the reason that a job gives, and ends on the page of limits", async () => {
  await gateway.call("PUT", "limits/smtp", { rate: { starts: 100, per: "1s" } });
  const { id } = await gateway.enqueue({ queue: "orders", payload: {}, limits: ["smtp:gmail.com"] });
  await gateway.call("POST", "limits/smtp:gmail.com/block", { span: "1h" });
  await onPage(`#/jobs/${id}`, async (page) => {
    await page.locator("[data-reason=limit_blocked]").getByText("A limit that it names is blocked; its jobs may start in").waitFor();
    await page.getByRole("link", { name: "smtp:gmail.com" }).click();
    const row = page.locator('tr[data-named-limit="smtp:gmail.com"]');
    await row.getByText("100 in any 1s · set by smtp").waitFor();
    await row.getByText("blocked").waitFor();
    await row.getByRole("button", { name: "Block" }).click();
    await page.getByRole("button", { name: "End the block" }).click();
    await notice(page, "not blocked any more");
    // The row stays for a minute after the block, then it goes.
    await row.getByText("blocked").waitFor({ state: "detached" });
    await row.getByRole("button", { name: "Block" }).waitFor();
  });
});

test("a queue is paused, resumed by undo, and purged; every search is answered", async () => {
  await gateway.enqueue([1, 2].map((n) => ({ queue: "mail", kind: "mail.send", payload: { to: "ann", n } })));
  await onPage("#/queues/mail", async (page) => {
    await page.getByRole("button", { name: "Pause" }).click();
    await page.waitForSelector(".title .badge");
    await page.getByRole("button", { name: /Undo/ }).click();
    await page.waitForFunction(() => !document.querySelector(".title .badge"));
    assert.equal((await gateway.counts("mail")).paused, false);
    await page.getByRole("button", { name: "Purge…" }).click();
    await page.getByRole("button", { name: "Cancel 2 jobs" }).click();
    await notice(page, "2 jobs changed");
    assert.equal((await gateway.counts("mail")).cancelled, 2);
  });
  for (const search of ["text=ann", "kind=mail.send", "queue=mail", "state=cancelled", "queue=mail&unique=x", "queue=mail&group=x", "queue=mail&from=-1h&before=1h"]) {
    await onPage(`#/jobs?${search}`, async (page) => {
      await page.waitForSelector(".joblist .job[data-id], .joblist > .empty");
      assert.equal(await page.locator(".note.bad").count(), 0, search);
    });
  }
});

test("dead letters of one cause are one group, which leads to a redrive of them", async () => {
  const own = await serve();
  await own.enqueue([1, 2, 3].map((n) => ({ queue: "mail", kind: "send", payload: { n } })));
  const { token, jobs } = await own.claim("mail", { limit: 3 });
  const settlements = jobs.map(({ id, attempt }, n) => ({ id, attempt, outcome: "dead", error: `smtp said ${550 + n}` }));
  await own.call("POST", "settlements", { leases: [{ token, settlements }] });
  await visit(browser, own, "#/jobs?state=dead", async (page) => {
    const group = page.locator(".dead-groups li");
    await group.waitFor();
    assert.match((await group.innerText()).replaceAll(/\s+/g, " "), /^3 mail send smtp said #/);
    await group.locator(".many").click();
    await page.locator(".listbar .count").getByText("3 jobs").waitFor();
    await page.locator(".job[data-id] input").first().click();
    await page.getByRole("button", { name: /^all that match/ }).click();
    await page.locator("[data-action=redrive]").click();
    await page.getByRole("button", { name: "Redrive 3 jobs" }).click();
    await page.waitForSelector(".notice");
    assert.equal((await own.counts("mail")).ready, 3);
  });
  await own.stop();
});

test("a payload is changed, a cancelled job is redriven, and an empty queue is deleted", async () => {
  const own = await serve();
  const { id } = await own.enqueue({ queue: "mail", payload: { n: 1 }, delay: "1h" });
  await visit(browser, own, `#/jobs/${id}`, async (page) => {
    await page.locator("[data-action=payload]").click();
    await page.fill("dialog textarea", '{"n":2}');
    await page.getByRole("button", { name: "Save" }).click();
    await page.locator(".notices").getByText("payload changed").waitFor();
    assert.deepEqual((await own.job(id)).payload, { n: 2 });
    await page.getByRole("button", { name: "Undo" }).click();
    await page.locator(".notices").getByText("1 job put back").waitFor();
    assert.deepEqual((await own.job(id)).payload, { n: 1 });
    await own.call("DELETE", `jobs/${id}`);
    await page.locator("[data-action=redrive]").click();
    await page.waitForSelector(".why.s-ready");
    await own.call("DELETE", `jobs/${id}`);
    await own.call("DELETE", `jobs/${id}?forget=true`);
    await page.goto(`${own.url}#/queues/mail`);
    await page.locator("[data-action=delete-queue]").click();
    await page.getByRole("button", { name: "Delete the queue" }).click();
    await page.waitForSelector(".totals");
  });
  assert.deepEqual((await own.call("GET", "queues")).queues, []);
  await own.stop();
});

test("lines that a worker logged are on the page of their job", async () => {
  const own = await serve();
  const { id } = await own.enqueue({ queue: "mail", payload: { n: 1 }, retention: "1h" });
  const { token, jobs } = await own.claim("mail");
  const settlements = jobs.map(({ id, attempt }) => ({ id, attempt, outcome: "completed", log: ["connected to smtp", "<b>sent</b>"] }));
  await own.call("POST", "settlements", { leases: [{ token, settlements }] });
  await visit(browser, own, `#/jobs/${id}`, async (page) => {
    const text = await page.locator(".joblog pre").innerText();
    assert.match(text, /  1  connected to smtp\n.*  1  <b>sent<\/b>$/);
  });
  await own.stop();
});

test("a schedule shows its next runs, is paused with a note, run, skipped, backfilled and removed", async () => {
  const own = await serve();
  await own.call("PUT", "schedules/weekly-report", { cron: ["0 9 * * MON"], zone: "Europe/Berlin", overlap: "allow", job: { queue: "reports", kind: "weekly", payload: { to: "boss" } } });
  await visit(browser, own, "#/schedules", async (page) => {
    const row = page.locator("[data-schedule=weekly-report]");
    const { next } = await own.call("GET", "schedules/weekly-report");
    await row.getByText(/^Mon \d{4}-\d\d-\d\d 09:00:00$/).waitFor();
    await row.getByRole("link", { name: "weekly-report" }).click();
    // The same instant by the clock of the zone, and by UTC.
    await page.getByText(next[0].replace(/\.0+Z$/, "Z")).waitFor();
    await page.locator("[data-action=pause]").click();
    await page.fill("dialog input[name=note]", "until <January>");
    await page.getByRole("button", { name: "Pause", exact: true }).click();
    await page.locator(".note.warn").getByText("until <January>").waitFor();
    assert.equal((await own.call("GET", "schedules/weekly-report")).schedule.paused, true);
    await page.locator("[data-action=resume]").click();
    await page.locator("[data-action=pause]").waitFor();
    await page.locator("[data-action=run]").click();
    await notice(page, "a run was enqueued");
    assert.equal((await own.counts("reports")).ready, 1);
    await page.locator("[data-action=skip]").click();
    await notice(page, "the next run is skipped");
    const after = await own.call("GET", "schedules/weekly-report");
    assert.deepEqual([after.skipped, after.next[0]], [1, next[1]]);
    await page.locator("[data-action=backfill]").click();
    await page.fill("dialog input[name=from]", "-21d");
    await page.getByRole("button", { name: "Show the instants" }).click();
    await page.locator("dialog .big").getByText("3", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Enqueue 3 runs" }).click();
    await notice(page, "3 runs enqueued");
    assert.equal((await own.counts("reports")).ready, 4);
    await page.locator("[data-action=remove]").click();
    await page.getByRole("button", { name: "Remove the schedule" }).click();
    await page.getByText("No schedules yet").waitFor();
  });
  assert.deepEqual((await own.call("GET", "schedules")).schedules, []);
  await own.stop();
});

test("a share that the page pauses starts no job, and others do", async () => {
  const own = await serve();
  await own.enqueue(["acme", "bonk"].map((share) => ({ queue: "mail", payload: {}, share })));
  const claimed = async () => (await own.claim("mail", { limit: 10 })).jobs.map(({ share }) => share);
  await visit(browser, own, "#/queues/mail", async (page) => {
    await page.getByRole("button", { name: "Pause acme" }).click();
    await page.locator(".shares [data-share=acme][data-closed=paused]").waitFor();
    assert.deepEqual(await claimed(), ["bonk"]);
    await page.getByRole("button", { name: "Resume acme" }).click();
    await page.locator(".shares [data-share=acme][data-closed=open]").waitFor();
    assert.deepEqual(await claimed(), ["acme"]);
  });
  await own.stop();
});

test("limits of a queue hold as the page says, until they are taken off", async () => {
  const own = await serve();
  await own.enqueue([1, 2, 3].map((n) => ({ queue: "mail/eu", payload: { n } })));
  await visit(browser, own, "#/queues/mail%2Feu", async (page) => {
    await page.locator("[data-action=limits]").click();
    await page.fill("dialog [name=concurrency]:enabled", "2");
    await page.getByRole("button", { name: "Save" }).click();
    await notice(page, "mail/eu: limits set");
    await own.claim("mail/eu", { limit: 10 });
    await page.locator(".title [data-limit=concurrency]").getByText("2 of 2 active · all slots in use").waitFor();
    await page.locator("[data-action=limits]").click();
    await page.locator("dialog [data-limit=concurrency]").waitFor();
    await page.fill("dialog [name=concurrency]", "");
    await page.fill("dialog [name=starts]", "1");
    await page.fill("dialog [name=per]", "10m");
    await page.getByRole("button", { name: "Save" }).click();
    await page.locator(".title [data-limit=open]").getByText("1 in any 10m").waitFor();
    await own.claim("mail/eu", { limit: 10 });
    await own.enqueue({ queue: "mail/eu", payload: {} });
    await page.locator(".title [data-limit=rate]").getByText(/rate used up, opens in \d+m/).waitFor();
    await page.locator("[data-action=limits]").click();
    await page.waitForFunction(() => document.querySelector("dialog [name=per]")?.value === "10m");
    await page.locator("[data-action=remove-limits]").click();
    await notice(page, "mail/eu: no limits any more");
  });
  const { concurrency, rate } = await own.call("GET", "queues/mail%2Feu/limits");
  assert.deepEqual([concurrency, rate], [undefined, undefined]);
  await own.stop();
});
