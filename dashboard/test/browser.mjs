// Debian's chromium with a fresh profile, and pages that fail the test when they break the policy.
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

export async function launch() {
  const profile = await mkdtemp(join(tmpdir(), "punctual-browser-"));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS, headless: true, viewport: { width: 1360, height: 900 }, locale: "en-GB", colorScheme: "dark",
  });
  if (process.env.PAGE_FILES) await fromFiles(context);
  return {
    context,
    async close() {
      await context.close();
      await rm(profile, { recursive: true, force: true });
    },
  };
}

/**
 * Takes the script and the style of the page from the disk: for a binary that was built before
 * them.
 */
async function fromFiles(context) {
  const assets = join(import.meta.dirname, "../../crates/punctual-gateway/assets");
  await context.route(/^http:\/\/[^/]+\/app\.(js|css)$/, async (route) => {
    const response = await route.fetch();
    const { "content-encoding": _, "content-length": __, etag: ___, ...headers } = response.headers();
    await route.fulfill({ status: response.status(), headers, body: await readFile(join(assets, new URL(route.request().url()).pathname)) });
  });
}

/** A page with its complaints: errors, and whatever the policy refused. */
export async function open(browser, url, { token = "dev", path = "#/", width = 1360, height = 900, init = `localStorage.setItem("punctual.language", "en")` } = {}) {
  const page = await browser.context.newPage();
  await page.setViewportSize({ width, height });
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(`error: ${error.message}`));
  page.on("console", (message) => message.type() === "error" && !/status of (401|403|404|409|422)/.test(message.text()) && complaints.push(message.text()));
  page.setDefaultTimeout(10_000);
  await page.addInitScript(init);
  if (token) await page.addInitScript((text) => sessionStorage.setItem("punctual.token", text), token);
  await page.goto(`${url}${path}`);
  return { page, complaints };
}
