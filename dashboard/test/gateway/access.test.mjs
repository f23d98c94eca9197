// Who may see and do what, on the real gateway.
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launch } from "../browser.mjs";
import { live, serve, stopAll, visit } from "./serve.mjs";

const READ = "token-that-may-read-0123";
const ENQUEUE = "token-that-may-enqueue-0123";
const OTHER = "token-of-another-namespace-0123";
const REFUSED = /status of (401|403|429)/;
/** The browser itself complains of what cannot be reached. */
const AWAY = /ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|ERR_SOCKET_NOT_CONNECTED|WebSocket/;

let browser;
let gateway;
let folder;
let dead;
before(async () => {
  browser = await launch();
  folder = await mkdtemp(join(tmpdir(), "punctual-tokens-"));
  const file = join(folder, "tokens.txt");
  await writeFile(file, `${READ} default read\n${ENQUEUE} default read,enqueue\n${OTHER} elsewhere admin\n`, { mode: 0o600 });
  gateway = await serve({ args: ["--token-file", file] });
  dead = (await gateway.enqueue({ queue: "mail", payload: { to: "ann" } })).id;
  await gateway.settle(await gateway.claim("mail"), { outcome: "dead", error: "550" });
  await gateway.enqueue({ queue: "mail", payload: {}, delay: "1h" });
});
after(async () => {
  await browser?.close();
  await stopAll();
  await rm(folder, { recursive: true, force: true });
});

const enter = async (page, token) => {
  await page.fill("input[name=token]", token);
  await page.keyboard.press("Enter");
};

test("without a token the page asks, refuses a wrong one, and lets the right one in where it wanted to go", async () => {
  await visit(browser, gateway, `#/jobs/${dead}`, async (page) => {
    await page.waitForSelector("form.login");
    assert.equal(await page.getByText(dead).count(), 0);
    await enter(page, "a-wrong-token-of-some-length");
    await page.getByRole("alert").filter({ hasText: "not accepted" }).waitFor();
    await enter(page, gateway.token);
    await page.getByRole("heading", { name: dead }).waitFor();
    await live(page);
    const kept = await page.evaluate(() => JSON.stringify(localStorage) + document.cookie + location.href);
    assert.ok(!kept.includes(gateway.token), "the token is kept for the tab only");
  }, { token: null, isLive: false, allow: REFUSED });
});

test("a token that was forgotten on purpose is gone", async () => {
  await visit(browser, gateway, `#token=${gateway.token}`, async (page) => {
    await live(page);
    assert.ok(!page.url().includes(gateway.token), "it leaves the address");
    await page.keyboard.press("?");
    await page.getByRole("button", { name: "Forget token" }).click();
    await page.waitForSelector("form.login");
    await page.reload();
    await page.waitForSelector("form.login");
    assert.equal(await page.evaluate(() => sessionStorage.getItem("punctual.token")), "");
  }, { token: null, isLive: false, allow: REFUSED });
});

for (const [token, canEnqueue] of [[READ, false], [ENQUEUE, true]]) {
  test(`a token that may ${canEnqueue ? "enqueue" : "only read"} sees no button that changes what is there`, async () => {
    for (const [path, sign] of [["#/", ".totals"], ["#/queues/mail/dead", ".job[data-id]"], ["#/jobs?state=dead", ".job[data-id]"], [`#/jobs/${dead}`, ".explain li"]]) {
      await visit(browser, gateway, path, async (page) => {
        await page.waitForSelector(sign);
        await page.waitForFunction(() => !document.querySelector("main :is([data-action], button.danger, .pick input, .listbar input)"));
        // By keys neither.
        for (const key of ["j", "x", "X", "a"]) await page.keyboard.press(key);
        assert.equal(await page.locator("main :is([data-action], button.danger, .picked)").count(), 0, path);
        assert.equal(await page.locator(".bar").getByRole("link", { name: "Enqueue", exact: true }).count(), canEnqueue ? 1 : 0);
      }, { token });
    }
  });
}

test("what the page hides the gateway refuses, and the page says so in words", async () => {
  const edit = (token) => fetch(`${gateway.url}v1/edits`, { method: "POST", headers: { authorization: `Bearer ${token}`, "content-type": "application/json" }, body: JSON.stringify({ action: "redrive", ids: [dead] }) });
  assert.equal((await edit(READ)).status, 403);
  await visit(browser, gateway, "#/enqueue?queue=mail", async (page) => {
    await page.getByRole("button", { name: "Enqueue", exact: true }).click();
    await page.getByRole("alert").filter({ hasText: "Your token does not allow this" }).waitFor();
  }, { token: READ, allow: REFUSED });
  assert.equal((await gateway.job(dead)).state, "dead");
});

test("a token of another namespace sees nothing of this one", async () => {
  await visit(browser, gateway, "#/", async (page) => {
    await page.getByText("No queues yet").waitFor();
    await page.locator(".bar .badge", { hasText: "elsewhere" }).waitFor();
    await page.goto(`${gateway.url}#/jobs/${dead}`);
    await page.getByText("No such job.").waitFor();
  }, { token: OTHER });
});

test("a token that is good no more leads to the form, and a good one back to the same page", async () => {
  const first = await serve();
  const { host } = new URL(first.url);
  await visit(browser, first, "#/workers", async (page) => {
    await page.waitForSelector(".workers");
    await first.stop();
    const second = await serve({ listen: host, token: "another-token-since-0123" });
    await page.waitForSelector("form.login", { timeout: 30_000 });
    assert.equal(await page.locator("main .workers").count(), 0, "nothing is shown any more");
    await enter(page, second.token);
    await page.waitForSelector(".workers");
    await live(page);
    assert.match(page.url(), /#\/workers$/);
    await second.stop();
  }, { allow: new RegExp(`${REFUSED.source}|${AWAY.source}`) });
});

test("after too many wrong tokens the page still asks, and says how long to wait", async () => {
  const own = await serve();
  const wrong = () => fetch(`${own.url}v1/info`, { headers: { authorization: "Bearer a-wrong-token-of-some-length" } });
  let status = 401;
  for (let tries = 0; status === 401 && tries < 100; tries += 1) ({ status } = await wrong());
  assert.equal(status, 429);
  await visit(browser, own, "#/", async (page) => {
    await page.waitForSelector("form.login");
    const alert = page.getByRole("alert").filter({ hasText: /too many wrong tokens.*wait \d+ s/ });
    await alert.waitFor();
    assert.equal(await page.inputValue("input[name=token]"), "a-wrong-token-of-some-length", "it may be tried again as it is");
    await enter(page, "another-wrong-one-of-length");
    await alert.waitFor();
  }, { token: "a-wrong-token-of-some-length", isLive: false, allow: REFUSED });
  await own.stop();
});

test("the policy lets nothing run that is not the page's own file, and the page has nothing of that kind", async () => {
  const response = await fetch(gateway.url);
  const policy = response.headers.get("content-security-policy");
  assert.match(policy, /default-src 'none'/);
  assert.match(policy, /script-src 'self'(;|$)/);
  assert.doesNotMatch(policy, /unsafe|\*|https?:/);
  assert.doesNotMatch(await response.text(), /<script(?![^>]*\ssrc=)|<style|\son\w+=|\sstyle=/i);
  let complained = 0;
  await visit(browser, gateway, "#/", async (page) => {
    page.on("console", (message) => (complained += /Content Security Policy/.test(message.text()) ? 1 : 0));
    await page.waitForSelector(".totals");
    await page.evaluate(() => {
      const script = document.createElement("script");
      script.textContent = "window.pwned = 1";
      document.body.append(script);
      document.body.insertAdjacentHTML("beforeend", `<img src="x" onerror="window.pwned = 1"><p style="color: red">x</p>`);
    });
    await page.waitForFunction(() => document.querySelector("p[style]"));
    assert.equal(await page.evaluate(() => window.pwned), undefined);
    assert.equal(await page.evaluate(() => getComputedStyle(document.querySelector("p[style]")).color === "rgb(255, 0, 0)"), false);
  }, { allow: /Content Security Policy|404/ });
  assert.ok(complained >= 2, "the browser reported what it refused");
});
