// The real gateway, one of a test's own, and the pages that a browser opens on it.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { open } from "../browser.mjs";

export const TOKEN = "dashboard-test-token-0123";

/** The command under test. */
export function program() {
  assert.ok(process.env.PUNCTUAL, "set PUNCTUAL to the command; build it with cargo build -p punctual-cli");
  return process.env.PUNCTUAL;
}

/** Those that were started and not stopped. */
const running = new Set();
export const stopAll = () => Promise.all([...running].map((own) => own.stop()));

/** Starts the command; `said` is filled with what it prints, `printed` waits for a part of that. */
export function run(args, env = {}) {
  const child = spawn(program(), args, { env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
  const own = {
    said: "",
    printed: (what) =>
      new Promise((found, failed) => {
        const check = () => {
          const match = what.exec(own.said);
          if (match) found(match);
        };
        for (const stream of [child.stdout, child.stderr]) stream.on("data", check);
        child.once("exit", () => failed(new Error(`punctual ${args[0]} ended: ${own.said}`)));
        check();
      }),
    async stop(signal = "SIGTERM") {
      running.delete(own);
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill(signal);
      await once(child, "exit");
    },
  };
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (own.said += chunk));
  running.add(own);
  return own;
}

/** A gateway with nothing in it. */
export async function serve({ engine = "memory:", args = [], token = TOKEN, listen = "127.0.0.1:0" } = {}) {
  const own = run(["serve", "--engine", engine, "--listen", listen, "-o", "json", ...args], { PUNCTUAL_TOKEN: token });
  const [, address] = await own.printed(/"url":"(http:[^"]+)"/);
  const url = `${address}/`;
  const ask = (method, path, body, type = "application/json") =>
    fetch(`${url}v1/${path}`, { method, headers: { authorization: `Bearer ${token}`, "content-type": type }, body });
  const call = async (method, path, body) => {
    const response = await ask(method, path, body === undefined ? undefined : JSON.stringify(body));
    const answer = await response.json();
    assert.ok(response.ok, `${method} ${path}: ${JSON.stringify(answer)}`);
    return answer;
  };
  return {
    url, token, call,
    stop: own.stop,
    enqueue: (jobs) => call("POST", "jobs", jobs),
    job: (id) => call("GET", `jobs/${id}`),
    counts: async (queue) => (await call("GET", `queues?queue=${encodeURIComponent(queue)}`)).queues[0],
    /** One job per line; how many were taken. */
    async bulk(lines) {
      const answer = await (await ask("POST", "bulk", lines.join("\n"), "application/x-ndjson")).text();
      const last = JSON.parse(answer.trim().split("\n").at(-1));
      assert.deepEqual([last.done, last.refused], [true, 0]);
      return last.accepted;
    },
    claim: async (queue, fields = {}) => (await call("POST", "claims", { queues: [queue], ...fields })).leases[0],
    /** Settles every job of a lease in the same way. */
    settle: (lease, end, lateness = []) =>
      call("POST", "settlements", { leases: [{ token: lease.token, settlements: lease.jobs.map(({ id, attempt }) => ({ id, attempt, ...end })), lateness_us: lateness, run_time_us: lateness }] }),
  };
}

/** Opens a page, lets a test read it, and fails if the page complained or broke its policy. */
export async function visit(browser, gateway, path, work, { isLive = true, allow, ...options } = {}) {
  const { page, complaints } = await open(browser, gateway.url, { path, token: gateway.token, ...options });
  try {
    if (isLive) await live(page);
    await work(page);
    assert.deepEqual(complaints.filter((one) => !allow?.test(one)), [], "errors, or what the policy refused");
  } finally {
    await page.close();
  }
}

export const live = (page) => page.waitForSelector(".live[data-live=live]");
/** Waits until the overview counts so many jobs of a state. */
export const total = (page, state, count) =>
  page.waitForFunction(([name, many]) => document.querySelector(`.total[data-state=${name}] b`)?.textContent === many, [state, count.toLocaleString("en")]);
