// An engine that is away, as an operator and as a tenant sees it, on the real gateway.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launch } from "../browser.mjs";
import { TOKEN, serve, stopAll, visit } from "./serve.mjs";

const TENANT = "token-of-a-tenant-0123";
/** Until a call to an engine that is away is given up. */
const GIVES_UP_MS_MAX = 60_000;

let browser;
let folder;
let redis;
before(async () => {
  browser = await launch();
  folder = await mkdtemp(join(tmpdir(), "punctual-away-"));
});
after(async () => {
  await browser?.close();
  await stopAll();
  redis?.kill("SIGKILL");
  await rm(folder, { recursive: true, force: true });
});

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

async function startRedis(port) {
  redis = spawn("redis-server", ["--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", folder], { stdio: ["ignore", "pipe", "ignore"] });
  let said = "";
  for await (const chunk of redis.stdout) {
    said += chunk;
    if (said.includes("Ready to accept connections")) return;
  }
  throw new Error(`redis-server ended: ${said}`);
}

test("an engine that is away is reported with its cause to an operator, and without it to a tenant", async () => {
  const port = await freePort();
  await startRedis(port);
  const file = join(folder, "tokens.txt");
  await writeFile(file, `${TENANT} default admin\n`, { mode: 0o600 });
  const gateway = await serve({ engine: `redis://127.0.0.1:${port}?durability=memory`, args: ["--token-file", file] });
  const { id } = await gateway.enqueue({ queue: "mail", payload: {}, delay: "1h" });
  const allow = /status of 503|WebSocket/;
  const isReported = async (page, whole) => {
    const note = page.locator(".note.bad").first();
    await note.getByText("the engine does not answer correctly").waitFor({ timeout: GIVES_UP_MS_MAX });
    const said = await note.locator(".said").allInnerTexts();
    assert.equal(said.length, whole ? 1 : 0, `${said}`);
    assert.equal((await note.innerText()).includes(`127.0.0.1:${port}`), whole, await note.innerText());
  };
  await visit(browser, gateway, `#/jobs/${id}`, async (page) => {
    await page.waitForSelector("h1 + .s-scheduled");
    redis.kill("SIGKILL");
    await once(redis, "exit");
    await isReported(page, true);
    assert.equal(await page.locator("h1 + .s-scheduled").count(), 1, "what was read stays");
  }, { allow });
  for (const path of [`#/jobs/${id}`, "#/"]) {
    for (const [token, whole] of [[TOKEN, true], [TENANT, false]]) {
      await visit(browser, { ...gateway, token }, path, (page) => isReported(page, whole), { allow, isLive: false });
    }
  }
});
