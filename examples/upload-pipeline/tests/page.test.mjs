// The page in a browser, with kills of the worker, of the web process and of the store.
// `scripts/dashboard` runs it.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { after, before, test } from "node:test";
import { launch } from "../../../dashboard/test/browser.mjs";

const PIPELINE = process.env.UPLOAD_PIPELINE;
/** The browser itself complains of what cannot be reached, and of answers that are errors. */
const AWAY = /ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|ERR_SOCKET_NOT_CONNECTED|ERR_INTERNET_DISCONNECTED|WebSocket|status of/;

let browser;
const running = new Set();
const folders = [];
before(async () => { browser = await launch(); });
after(async () => {
  await browser?.close();
  for (const child of running) child.kill("SIGKILL");
  for (const folder of folders) await rm(folder, { recursive: true, force: true });
});

async function folder() {
  const made = await mkdtemp(join(tmpdir(), "upload-page-"));
  folders.push(made);
  return made;
}

/** A port that was free a moment ago: a process that starts again must be found where it was. */
async function freePort() {
  const server = createServer();
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}

/** Starts the pipeline; done once it has printed its first line. */
const start = (data, port, ...args) => run(PIPELINE, ["--data", data, "--listen", `127.0.0.1:${port}`, "--lease", "2s", ...args], port);

/** The same of a store of S3, which keeps its objects when it is killed. */
const startStore = (data, port) => run(process.execPath, [fileURLToPath(new URL("store.mjs", import.meta.url)), data, `${port}`], port);

async function run(program, args, port) {
  const keys = { AWS_ACCESS_KEY_ID: "a", AWS_SECRET_ACCESS_KEY: "b" };
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"], env: { ...process.env, ...keys } });
  running.add(child);
  await new Promise((done, failed) => {
    child.stdout.once("data", done);
    child.once("exit", (code) => failed(new Error(`${program} ended with ${code}`)));
  });
  return {
    url: `http://127.0.0.1:${port}/`,
    kill: () => new Promise((done) => {
      child.removeAllListeners("exit");
      child.once("exit", () => { running.delete(child); done(); });
      child.kill("SIGKILL");
    }),
  };
}

async function visit(url, size = { width: 1000, height: 900 }) {
  const page = await browser.context.newPage();
  await page.setViewportSize(size);
  page.complaints = [];
  page.on("pageerror", (error) => page.complaints.push(error.message));
  page.on("console", (message) => message.type() === "error" && !AWAY.test(message.text()) && page.complaints.push(message.text()));
  page.setDefaultTimeout(60_000);
  await page.goto(url);
  await page.getByText("CSV, PNG or JPEG").waitFor();
  return page;
}

const csv = (name, rows) => `name,n\n${Array.from({ length: rows }, (_, n) => `${name},${n + 1}\n`).join("")}`;

/** Drops a file onto the page. */
async function drop(page, name, text, type = "text/csv") {
  const data = await page.evaluateHandle(([name, text, type]) => {
    const data = new DataTransfer();
    data.items.add(new File([text], name, { type }));
    return data;
  }, [name, text, type]);
  await page.dispatchEvent("#drop", "drop", { dataTransfer: data });
}

const card = (page, name) => page.locator("article", { hasText: name });
const state = (page, name, text) => card(page, name).locator(".state", { hasText: new RegExp(`^${text}$`) }).waitFor();

test("a dropped file shows its progress, survives a kill of its worker, and shows its result", async () => {
  const data = await folder();
  const web = await start(data, await freePort(), "--role", "web");
  const worker = await start(data, 0, "--role", "worker", "--pace", "200ms");
  const page = await visit(web.url);
  await drop(page, "long.csv", csv("ann", 10_000));
  await state(page, "long.csv", "processing");
  await card(page, "long.csv").getByText(/rows, \d+ % read/).waitFor();
  const second = await visit(web.url);
  await state(second, "long.csv", "processing");
  await worker.kill();
  await page.reload();
  await state(page, "long.csv", "processing");
  await start(data, 0, "--role", "worker", "--pace", "100ms");
  await card(page, "long.csv").getByText("its worker died or hung").waitFor();
  for (const one of [page, second]) {
    await state(one, "long.csv", "processed");
    await card(one, "long.csv").getByText("10000 rows").waitFor();
    await card(one, "long.csv").getByText("attempt 2").first().waitFor();
    assert.deepEqual(await card(one, "long.csv").locator("th").allTextContents(), ["name", "n"]);
    assert.deepEqual(await card(one, "long.csv").locator("ol.steps b").allTextContents().then((steps) => steps.slice(0, 4)), ["stored", "queued", "started", "ended"]);
    assert.deepEqual(one.complaints, []);
    await one.evaluate(() => localStorage.clear());
    await one.close();
  }
});

test("the page says that the server is away, and shows the result once it is back", async () => {
  const data = await folder();
  const port = await freePort();
  const first = await start(data, port, "--pace", "200ms");
  const page = await visit(first.url);
  await drop(page, "some.csv", csv("bob", 5_000));
  await state(page, "some.csv", "processing");
  await first.kill();
  await page.getByText("The server is away").waitFor();
  // What is sent meanwhile gets no answer, and says what to do.
  await drop(page, "later.csv", csv("eve", 10));
  await state(page, "later.csv", "no answer");
  await card(page, "later.csv").getByText("Drop the file again").waitFor();
  await start(data, port);
  await state(page, "some.csv", "processed");
  await page.getByText("The server is away").waitFor({ state: "hidden" });
  await drop(page, "again.csv", csv("eve", 10));
  await state(page, "again.csv", "processed");
  // The same bytes under another name.
  await drop(page, "same.csv", csv("eve", 10));
  await page.getByText("These bytes were there already").waitFor();
  assert.deepEqual(page.complaints, []);
  await page.evaluate(() => localStorage.clear());
  await page.close();
});

test("a file goes on once its killed store is back, and the page says why another was refused", async () => {
  const data = await folder();
  const [objects, at] = [await folder(), await freePort()];
  const store = await startStore(objects, at);
  const place = ["--store", "s3://files", "--s3-endpoint", `http://127.0.0.1:${at}`];
  const all = await start(data, await freePort(), ...place, "--pace", "50ms");
  const page = await visit(all.url);
  // Several ranges of a MiB: most of them are read after the store is back.
  const long = csv("a name that is long enough to fill several ranges of a mebibyte", 60_000);
  await drop(page, "long.csv", long);
  await state(page, "long.csv", "processing");
  await card(page, "long.csv").getByText(/rows, \d+ % read/).waitFor();
  await store.kill();
  await drop(page, "later.csv", csv("eve", 10));
  await state(page, "later.csv", "refused");
  await card(page, "later.csv").getByText("nothing was stored, try again").waitFor();
  await card(page, "long.csv").getByText("attempt 2").first().waitFor();
  await state(page, "long.csv", "processing");
  await startStore(objects, at);
  await state(page, "long.csv", "processed");
  await card(page, "long.csv").getByText("60000 rows").waitFor();
  await drop(page, "again.csv", csv("eve", 10));
  await state(page, "again.csv", "processed");
  assert.deepEqual(page.complaints, []);
  await page.evaluate(() => localStorage.clear());
  await page.close();
});

test("a browser that was offline says so, and goes on once it is online", async () => {
  const data = await folder();
  const all = await start(data, await freePort(), "--pace", "200ms");
  const page = await visit(all.url);
  await drop(page, "before.csv", csv("ann", 2_000));
  await state(page, "before.csv", "processing");
  await browser.context.setOffline(true);
  await drop(page, "offline.csv", csv("eve", 10));
  await state(page, "offline.csv", "no answer");
  await card(page, "offline.csv").getByText("Drop the file again").waitFor();
  await browser.context.setOffline(false);
  await state(page, "before.csv", "processed");
  await drop(page, "online.csv", csv("eve", 20));
  await state(page, "online.csv", "processed");
  await page.getByText("The server is away").waitFor({ state: "hidden" });
  assert.deepEqual(page.complaints, []);
  await page.evaluate(() => localStorage.clear());
  await page.close();
});

test("a sample survives a kill, and may be deleted while it is processed, in Chinese", async () => {
  const data = await folder();
  const web = await start(data, await freePort(), "--role", "web");
  const worker = await start(data, 0, "--role", "worker", "--pace", "20ms");
  const page = await visit(web.url);
  await page.getByRole("button", { name: "中文" }).click();
  await page.getByRole("button", { name: "500,000" }).click();
  await state(page, "sample-", "处理中");
  await card(page, "sample-").getByText(/行，已读/).waitFor();
  await worker.kill();
  await start(data, 0, "--role", "worker", "--pace", "20ms");
  await card(page, "sample-").getByText("第 1 次尝试：worker 死亡或停顿，租约已到期").waitFor();
  await state(page, "sample-", "处理中");
  // A slow click: the card changes many times between the press and the release.
  await card(page, "sample-").getByRole("button", { name: "删除" }).click({ delay: 1_500 });
  await card(page, "sample-").waitFor({ state: "detached" });
  assert.deepEqual(page.complaints, []);
  await page.evaluate(() => localStorage.clear());
  await page.close();
});

test("it reads well on a phone, in Chinese, and says why a file is refused", async () => {
  const data = await folder();
  const all = await start(data, await freePort());
  const page = await visit(all.url, { width: 360, height: 740 });
  await drop(page, "tool.png", "\u007fELF\u0002\u0001", "image/png");
  await card(page, "tool.png").getByText(/an executable; send PNG or JPEG/).waitFor();
  await drop(page, "wide.csv", `${",".repeat(2_000)}\n`);
  await card(page, "wide.csv").getByText("more than 1000 columns").waitFor();
  await page.getByRole("button", { name: "中文" }).click();
  await page.getByRole("heading", { name: "进程被杀死时会怎样" }).waitFor();
  await state(page, "wide.csv", "被拒绝");
  await card(page, "wide.csv").getByText("第 1 行超过 1000 列").waitFor();
  await card(page, "tool.png").getByText("请上传 PNG 或 JPEG").waitFor();
  await card(page, "tool.png").getByRole("button", { name: "隐藏" }).click();
  await card(page, "tool.png").waitFor({ state: "detached" });
  assert.equal(await page.locator("#token").isVisible(), false);
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(overflow <= 0, `${overflow} pixels stand out`);
  await card(page, "wide.csv").getByRole("button", { name: "删除" }).click();
  await card(page, "wide.csv").waitFor({ state: "detached" });
  assert.deepEqual(page.complaints, []);
  if (process.env.SHOT) await page.screenshot({ path: process.env.SHOT, fullPage: true });
  await page.close();
});
