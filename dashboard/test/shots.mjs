// Screenshots of every page, dark, light and on a phone: `node test/shots.mjs [folder]`.
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { start } from "../dev/server.mjs";
import { launch, open } from "./browser.mjs";

const out = process.argv[2] ?? "out";
const only = process.argv[3];
await mkdir(out, { recursive: true });
const gateway = await start({ jobs: 100_000, queues: 1_000, live: false });
for (let n = 0; n < 12; n += 1) gateway.engine.tick();
// Time stands still: the last picture is of the same minute as the first.
const at = Date.now();
gateway.engine.now = () => at;
const find = (wanted) => [...gateway.engine.jobs.values()].find(wanted).id;
const dead = find((job) => job.queue === "webhooks" && job.state === "dead");
const hostile = find((job) => job.payload?.includes("onerror"));
const stubborn = find((job) => job.kind === "mail.stubborn");
const grouped = find((job) => job.group && job.state === "ready");
const pages = {
  overview: "#/", queue: "#/queues/webhooks/dead", jobs: "#/jobs?state=dead", job: `#/jobs/${dead}`, waiting: `#/jobs/${grouped}`, stubborn: `#/jobs/${stubborn}`, hostile: `#/jobs/${hostile}`, workers: "#/workers", enqueue: "#/enqueue?queue=orders",
};
const looks = {
  dark: { width: 1360, height: 900, theme: "dark" }, light: { width: 1360, height: 900, theme: "light" }, phone: { width: 390, height: 844, theme: "dark" }, chinese: { width: 1360, height: 900, theme: "dark", language: "zh" },
};
const browser = await launch();
for (const [look, { width, height, theme, language = "en" }] of Object.entries(looks)) {
  for (const [name, path] of Object.entries(pages)) {
    if (only && !`${name}-${look}`.match(only)) continue;
    const init = `localStorage.setItem("punctual.theme", ${JSON.stringify(theme)}); localStorage.setItem("punctual.language", ${JSON.stringify(language)});`;
    const { page, complaints } = await open(browser, gateway.url, { path, width, height, init });
    await page.waitForSelector(".live[data-live=live]");
    await page.waitForLoadState("networkidle");
    if (name === "jobs" && look !== "phone") {
      await page.locator(".job input[type=checkbox]").nth(2).click();
      await page.locator(".job input[type=checkbox]").nth(6).click({ modifiers: ["Shift"] });
    }
    if (name === "workers") await page.locator(".worker .fold").first().click().then(() => page.waitForLoadState("networkidle"));
    await page.waitForTimeout(300);
    await page.screenshot({ path: join(out, `${name}-${look}.png`) });
    if (complaints.length) console.error(name, look, complaints);
    await page.close();
  }
}
await browser.close();
await gateway.stop();
