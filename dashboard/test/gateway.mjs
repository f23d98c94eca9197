// The page on the real gateway: `PUNCTUAL=/path/to/punctual npm run test:gateway`.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { launch, open } from "./browser.mjs";

const TOKEN = "dashboard-test-token-0123";
let gateway;
let url;
let browser;

before(async () => {
  const program = process.env.PUNCTUAL;
  assert.ok(program, "set PUNCTUAL to the command; build it with cargo build -p punctual-cli");
  gateway = spawn(program, ["serve", "--engine", "memory:", "--listen", "127.0.0.1:0"], { env: { ...process.env, PUNCTUAL_TOKEN: TOKEN } });
  let said = "";
  url = await new Promise((found, failed) => {
    const hear = (chunk) => {
      said += chunk;
      const address = /http:\/\/[\d.:]+/.exec(said)?.[0];
      if (address) found(`${address}/`);
    };
    gateway.stdout.on("data", hear);
    gateway.stderr.on("data", hear);
    gateway.once("exit", () => failed(new Error(`punctual serve ended: ${said}`)));
  });
  browser = await launch();
});
after(async () => {
  await browser?.close();
  if (gateway?.exitCode !== null) return;
  gateway.kill("SIGTERM");
  await once(gateway, "exit");
});

async function call(method, path, body) {
  const response = await fetch(`${url}v1/${path}`, { method, headers: { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" }, body: body && JSON.stringify(body) });
  const answer = await response.json();
  assert.ok(response.ok, `${method} ${path}: ${JSON.stringify(answer)}`);
  return answer;
}

async function visit(path, work) {
  const { page, complaints } = await open(browser, url, { path, token: TOKEN });
  try {
    await page.waitForSelector(".live[data-live=live]");
    await work(page);
    assert.deepEqual(complaints, []);
  } finally {
    await page.close();
  }
}

test("jobs, their death and their redrive are seen as they happen", async () => {
  await visit("#/queues/mail", async () => {});
  await visit("#/", async (page) => {
    const total = (state, n) => page.waitForFunction(([name, many]) => document.querySelector(`.total[data-state=${name}] b`)?.textContent === String(many), [state, n], { timeout: 8_000 });
    await page.waitForSelector(".totals");
    await call("POST", "jobs", [1, 2, 3].map((n) => ({ queue: "mail", kind: "mail.send", payload: { n, to: "<b>ann</b>" } })));
    await total("ready", 3);
    const { pages } = await call("POST", "claims", { queues: ["mail"], limit: 3 });
    await total("active", 3);
    const settlements = pages[0].jobs.map((job) => ({ id: job.id, attempt: job.attempt, outcome: "dead", error: "smtp said 550 <script>window.pwned=1</script>" }));
    await call("POST", "settlements", { pages: [{ token: pages[0].token, settlements, lateness_us: [900, 800, 700], run_time_us: [5000, 5000, 5000] }] });
    await total("dead", 3);
  });
  await visit("#/queues/mail/dead", async (page) => {
    await page.waitForSelector(".joblist .job[data-id]");
    await page.locator(".joblist .job[data-id] input").first().click();
    await page.getByRole("button", { name: "all that match (3)" }).click();
    await page.locator("[data-action=redrive]").click();
    await page.waitForSelector("dialog .big[data-changed='3']");
    assert.equal((await call("GET", "queues?queue=mail")).queues[0].dead, 3, "a dry run changes nothing");
    await page.getByRole("button", { name: "Redrive 3 jobs" }).click();
    await page.waitForSelector(".notice");
    assert.equal((await call("GET", "queues?queue=mail")).queues[0].ready, 3);
    assert.equal(await page.evaluate(() => window.pwned), undefined);
  });
});

test("each attempt of a job is told, with its error and its worker's host", async () => {
  const { id } = await call("POST", "jobs", { queue: "tries", payload: {} });
  const ends = [{ outcome: "retry", after: "0s", error: "no route to host" }, { outcome: "released" }, { outcome: "dead", error: "550 no such user" }];
  for (const end of ends) {
    const { pages } = await call("POST", "claims", { queues: ["tries"], worker: { host: "app-7" } });
    await call("POST", "settlements", { pages: [{ token: pages[0].token, settlements: [{ id, attempt: pages[0].jobs[0].attempt, ...end }] }] });
  }
  await visit(`#/jobs/${id}`, async (page) => {
    await page.waitForFunction(() => document.querySelector(".attempts")?.innerText.includes("app-7"));
    const rows = (await page.locator(".attempts tbody tr").allInnerTexts()).map((row) => row.replaceAll(/\s+/g, " ").trim());
    const begins = ["3 failed for good", "550 no such user", "2 handed back", "1 failed", "no route to host"];
    assert.deepEqual(rows.map((row, nth) => row.slice(0, begins[nth].length)), begins);
  });
});

test("the form enqueues, the job explains itself, is put off and put back, and cancelled", async () => {
  await visit("#/enqueue?queue=orders", async (page) => {
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
    await page.getByText(/put back/).waitFor();
    await page.locator("[data-action=cancel]").click();
    await page.getByRole("button", { name: "Cancel 1 job" }).click();
    await page.waitForSelector("[data-reason=cancelled]");
  });
});

test("a queue is paused and purged, every search is answered, the workers are shown", async () => {
  await visit("#/queues/mail", async (page) => {
    await page.getByRole("button", { name: "Pause" }).click();
    await page.waitForSelector(".title .badge");
    await page.getByRole("button", { name: "Purge…" }).click();
    await page.getByRole("button", { name: /^Cancel \d+ jobs?$/ }).click();
    await page.waitForSelector(".notice");
  });
  for (const search of ["text=ann", "kind=mail.send", "queue=mail", "state=cancelled", "queue=mail&unique=x", "queue=mail&group=x", "queue=mail&from=-1h&before=1h"]) {
    await visit(`#/jobs?${search}`, async (page) => {
      await page.waitForSelector(".joblist .job[data-id], .joblist > .empty");
      assert.equal(await page.locator(".note.bad").count(), 0, search);
    });
  }
  await visit("#/workers", (page) => page.waitForSelector(".worker .fold"));
});
