// The pictures of docs/images: every page dark, light, on a phone and in Chinese, of the stand-in's
// data. `npm run shots [part of a name]`; with pngquant they take a third of the room. A font for
// Chinese is needed.
import { spawnSync } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { start } from "../dev/server.mjs";
import { launch, open } from "./browser.mjs";

const out = join(import.meta.dirname, "../../docs/images");
const only = process.argv[2] ?? "";
await mkdir(out, { recursive: true });
const gateway = await start({ jobs: 100_000, queues: 1_000, live: false });
for (let n = 0; n < 12; n += 1) gateway.engine.tick();
// Time stands still: the last picture is of the same minute as the first.
const at = Date.now();
gateway.engine.now = () => at;
const find = (wanted) => [...gateway.engine.jobs.values()].find(wanted).id;
const dead = find((job) => job.queue === "webhooks" && job.state === "dead");
const hostile = find((job) => job.payload?.includes("onerror"));

const chooseSome = async (page) => {
  await page.locator(".job input[type=checkbox]").nth(1).click();
  await page.locator(".job input[type=checkbox]").nth(4).click({ modifiers: ["Shift"] });
  await page.evaluate(() => scrollTo(0, 0));
};
const countRedrive = async (page) => {
  await page.locator(".job[data-id] input").first().click();
  await page.keyboard.press("X");
  await page.locator("[data-action=redrive]").click();
  await page.waitForSelector("dialog footer button.main:enabled");
};
const openFirst = (page) => page.locator(".worker .fold").first().click();
const pages = {
  overview: { path: "#/" }, queue: { path: "#/queues/webhooks" }, jobs: { path: "#/jobs?state=dead", act: chooseSome }, job: { path: `#/jobs/${dead}` }, workers: { path: "#/workers", act: openFirst }, schedules: { path: "#/schedules", themes: ["dark"] }, flow: { path: "#/flows/order-7", themes: ["dark"] },
  enqueue: { path: "#/enqueue?queue=orders" }, engine: { path: "#/engine" }, audit: { path: "#/audit" }, bulk: { path: "#/queues/webhooks/dead", act: countRedrive }, login: { path: "#/", token: null }, hostile: { path: `#/jobs/${hostile}`, themes: ["dark"] },
};
const themes = {
  dark: { width: 1360, height: 900, theme: "dark" }, light: { width: 1360, height: 900, theme: "light" }, phone: { width: 390, height: 844, theme: "dark" }, chinese: { width: 1360, height: 900, theme: "dark", language: "zh" },
};
const browser = await launch();
const taken = [];
for (const [view, { width, height, theme, language = "en" }] of Object.entries(themes)) {
  for (const [name, { path, act, token, themes: some }] of Object.entries(pages)) {
    if (!`${name}-${view}`.includes(only) || (some && !some.includes(view))) continue;
    const init = `localStorage.setItem("punctual.theme", ${JSON.stringify(theme)}); localStorage.setItem("punctual.language", ${JSON.stringify(language)});`;
    const { page, complaints } = await open(browser, gateway.url, { path, token, width, height, init });
    page.setDefaultTimeout(60_000);
    await page.waitForSelector(token === null ? "form.login" : ".live[data-live=live]");
    await page.waitForLoadState("networkidle");
    await act?.(page);
    await page.waitForLoadState("networkidle");
    await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
    // What is below the last panel shows nothing.
    const end = await page.evaluate(() => (document.querySelector("dialog") ? Infinity : document.querySelector("main").lastElementChild.getBoundingClientRect().bottom + 12));
    const file = join(out, `${name}-${view}.png`);
    await page.screenshot({ path: file, clip: { x: 0, y: 0, width, height: Math.min(height, Math.ceil(end)) } });
    taken.push(file);
    if (complaints.length) console.error(name, view, complaints);
    await page.close();
  }
}
await browser.close();
await gateway.stop();
const packed = spawnSync("pngquant", ["--force", "--ext", ".png", "--skip-if-larger", "--speed", "1", "64", "--", ...taken]);
if (packed.error) console.error("there is no pngquant: the pictures are as large as they came");
