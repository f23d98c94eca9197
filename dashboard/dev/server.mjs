// A stand-in for the gateway, to build and test the page without Rust: `npm run dev`.
import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import { pathToFileURL } from "node:url";
import { FakeEngine, Refused } from "./engine.mjs";
import { STATES } from "./seed.mjs";
import { readSent, writeJob, writeListed } from "./wire.mjs";
import { accept } from "./socket.mjs";

const assets = new URL("../../crates/punctual-gateway/assets/", import.meta.url);
const CSP = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const TYPES = { html: "text/html; charset=utf-8", js: "text/javascript; charset=utf-8", css: "text/css; charset=utf-8", svg: "image/svg+xml" };

/** Those that were started and not stopped: one of them keeps its process alive. */
const running = new Set();
export const stopAll = () => Promise.all([...running].map((own) => own.stop()));

/** Starts it; `token` null for none, `live` whether jobs go on by themselves. */
export async function start({ port = 0, token = "dev", scopes = ["admin", "read", "enqueue", "work"], live = true, jobs, queues } = {}) {
  const engine = new FakeEngine({ jobs, queues });
  const sockets = new Set();
  const state = { engine, token, scopes, calls: [], sockets };
  const server = createServer((request, response) => void answer(state, request, response));
  server.on("upgrade", (request, socket) => upgrade(state, request, socket));
  await new Promise((ready) => server.listen(port, "127.0.0.1", ready));
  const timer = live ? setInterval(() => engine.tick(), 1_000) : null;
  const stop = () => {
    running.delete(state);
    clearInterval(timer);
    for (const socket of sockets) socket.destroy();
    server.closeAllConnections();
    return new Promise((done) => server.close(done));
  };
  running.add(state);
  return Object.assign(state, { url: `http://127.0.0.1:${server.address().port}/`, stop });
}

async function answer(state, request, response) {
  const url = new URL(request.url, "http://localhost");
  try {
    if (!url.pathname.startsWith("/v1/")) return await file(url.pathname, response);
    const { token } = state;
    if (token && request.headers.authorization !== `Bearer ${token}`) throw new Refused(401, "unauthorized", "no valid token", "send Authorization: Bearer TOKEN");
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const sent = Buffer.concat(chunks).toString("utf8");
    state.calls.push(`${request.method} ${url.pathname}`);
    const [status, text] = route(state, request.method, url.pathname.slice(4), url.searchParams, sent);
    const bytes = gzipSync(text, { level: 1 });
    response.writeHead(status, { "content-type": "application/json", "content-encoding": "gzip", "cache-control": "no-store" }).end(bytes);
  } catch (error) {
    const known = error instanceof Refused ? error : new Refused(500, "internal", String(error.stack));
    const body = { error: { code: known.code, message: known.message, hint: known.hint, request_id: "dev-1" } };
    response.writeHead(known.status, { "content-type": "application/json" }).end(JSON.stringify(body));
  }
}

async function file(path, response) {
  const name = path === "/" ? "index.html" : path.slice(1);
  if (!/^[\w.]+$/.test(name)) return void response.writeHead(404).end();
  const bytes = await readFile(new URL(name, assets)).catch(() => null);
  if (!bytes) return void response.writeHead(404).end();
  response.writeHead(200, { "content-type": TYPES[name.split(".").pop()], "content-security-policy": CSP, "x-content-type-options": "nosniff", "referrer-policy": "no-referrer" }).end(bytes);
}

function route(state, method, path, params, sent) {
  const { engine, scopes } = state;
  const now = () => new Date(engine.now()).toISOString();
  const ok = (value) => [200, JSON.stringify({ ...value, now: now() })];
  const admin = () => {
    if (!scopes.includes("admin")) throw new Refused(403, "forbidden", "the token has no scope admin");
  };
  const body = sent ? readSent(sent) : {};
  if (path === "info") return ok({ ...engine.info(), namespace: "default", scopes });
  if (path === "stats") return ok(engine.stats({ queues: params.getAll("queue"), history: params.get("history") === "true", due: params.get("due") === "true", ends: params.get("ends") === "true", total: params.get("total") === "true", minutes: Number(params.get("minutes") ?? 1_440) }));
  if (path === "jobs" && method === "GET") {
    const { limit, cursor, payloads, preview, ...query } = Object.fromEntries(params);
    const listing = engine.list(query, { cursor, limit: Number(limit ?? 50) });
    const jobs = listing.jobs.map((job) => (preview ? writeListed(job, Number(preview)) : writeJob(job, payloads !== "false"))).join(",");
    const rest = JSON.stringify({ examined: listing.examined, cursor: listing.cursor, now: now() });
    return [200, `{"jobs":[${jobs}],${rest.slice(1)}`];
  }
  if (path === "jobs") {
    const many = Array.isArray(body.value);
    const receipts = (many ? body.value : [body.value]).map((job, n) => engine.enqueue(job, body.payloads[n]));
    return many ? ok({ receipts, durability: "memory" }) : [201, JSON.stringify({ ...receipts[0], durability: "memory", now: now() })];
  }
  if (path.startsWith("jobs/")) {
    const job = engine.jobs.get(path.slice(5)) ?? engine.flows.jobs.get(path.slice(5));
    if (!job) throw new Refused(404, "not_found", "no such job");
    if (method === "PATCH") {
      admin();
      if (!["held", "scheduled", "ready"].includes(job.state)) throw new Refused(409, job.state === "active" ? "job_active" : "wrong_state", "the job has started");
      Object.assign(job, { payload: body.payloads[0], payload_base64: undefined });
      engine.announce(job);
      return ok({ id: job.id, verdict: "done", state: job.state });
    }
    const more = JSON.stringify({ explain: engine.explain(job), now: now() });
    return [200, `${writeJob(job, true).slice(0, -1)},${more.slice(1)}`];
  }
  if (path === "edits") {
    const { action, ids, targets, filter, cursor, limit = 1_000, dry_run: dryRun } = body.value;
    if (!dryRun) admin();
    return ok(engine.edit(action, { ids: ids ?? targets?.map((target) => target.id), filter, cursor, limit, dryRun: !!dryRun }));
  }
  const switched = /^queues\/(pause|resume)$/.exec(path)?.[1];
  if (switched) {
    admin();
    const { share } = body.value;
    if (share !== undefined) {
      const answer = engine.shares.pause(body.value.queue, share, switched === "pause");
      if (answer.refused) throw new Refused(...answer.refused);
      return ok(answer);
    }
    const queue = engine.queues.get(body.value.queue);
    queue.paused = switched === "pause";
    return ok({ queue: queue.queue, paused: queue.paused, changed: true });
  }
  if (path === "queues/purge") {
    const { queue, dry_run: dryRun } = body.value;
    const found = [...engine.jobs.values()].filter((job) => job.queue === queue && ["held", "scheduled", "ready"].includes(job.state));
    if (dryRun) return ok({ queue, dry_run: true, pending: found.length });
    admin();
    const part = found.slice(0, 1_000);
    for (const job of part) engine.move(job, "cancelled", { cancelled: "purged", finished_at: now() });
    return ok({ queue, dry_run: false, examined: part.length, cancelled: part.length, ...(found.length > part.length && { cursor: "more" }) });
  }
  if (path === "queues/delete") {
    admin();
    const { queue } = body.value;
    if (STATES.some((state) => engine.counts.get(queue)?.[state])) throw new Refused(409, "conflict", "the queue has jobs");
    engine.queues.delete(queue);
    return ok({ queue, deleted: true });
  }
  if (path === "queues/settings" && method === "PUT") {
    admin();
    const { queue, version, ...wanted } = body.value;
    if (version !== (engine.settings.get(queue)?.version ?? 0)) throw new Refused(409, "version_conflict", "the settings were changed in the meantime", "read them again");
    engine.settings.set(queue, { ...wanted, version: version + 1 });
    return ok({ queue, version: version + 1 });
  }
  if (path === "queues/settings") return [200, JSON.stringify({ queue: params.get("queue"), on_full: "refuse", version: 0, ...engine.settings.get(params.get("queue")) })];
  if (path === "subscriptions") return ok({ subscriptions: engine.subscriptions });
  if (path === "publish/match") {
    const { subject, job } = body.value;
    if (subject.includes("..")) throw new Refused(422, "invalid_input", "subject: it has an empty token; use tokens between dots, such as orders.eu.paid");
    const whyNot = (one) => (!subject.startsWith("orders.") ? "its pattern is another" : one.name === "mailer" && job.headers?.country !== "de" ? "country is not de" : undefined);
    const found = engine.subscriptions.map((one) => ({ ...one, matches: !whyNot(one), ...(whyNot(one) && { why_not: whyNot(one) }) }));
    return ok({ matched: found.filter((one) => one.matches).length, subscriptions: found });
  }
  if (path === "locks") return ok({ locks: engine.locks });
  if (path === "relays") return ok({ relays: engine.relays });
  if (path === "flows" || path.startsWith("flows/")) {
    if (method === "POST") admin();
    const answer = engine.flows.route(method, path.slice(6), params, body.value);
    if (answer.refused) throw new Refused(...answer.refused);
    return ok(answer);
  }
  const shared = /^queues\/([^/]+)\/shares$/.exec(path)?.[1];
  if (shared) return ok(engine.shares.list(decodeURIComponent(shared), Number(params.get("top") ?? 20)));
  const limited = /^queues\/([^/]+)\/limits$/.exec(path)?.[1];
  if (limited) {
    if (method !== "GET") admin();
    const queue = decodeURIComponent(limited);
    const answer = engine.limits.route(method, queue, body.value, engine.counts.get(queue)?.active ?? 0);
    if (answer.refused) throw new Refused(...answer.refused);
    return ok(answer);
  }
  if (path === "limits") return ok(engine.namedLimits.list(params.get("after") ?? "", Number(params.get("limit"))));
  if (path.startsWith("limits/")) {
    if (method !== "GET") admin();
    const answer = engine.namedLimits.route(method, path.slice(7), body.value);
    if (answer.refused) throw new Refused(...answer.refused);
    return ok(answer);
  }
  if (path === "schedules") return ok({ schedules: engine.schedules() });
  if (path.startsWith("schedules/")) {
    const found = engine.schedules().find(({ name }) => name === decodeURIComponent(path.slice(10)));
    if (!found) throw new Refused(404, "not_found", "no such schedule");
    return ok(found);
  }
  if (path === "dead-groups") return ok(engine.deadGroups({ queues: params.getAll("queue"), kind: params.get("kind") }));
  if (path === "kinds") return ok(engine.kinds(params.get("queue")));
  if (path === "audit") {
    admin();
    return ok({ entries: engine.audit.slice(0, Number(params.get("limit") ?? 100)) });
  }
  throw new Refused(404, "not_found", "no such route");
}

function upgrade(state, request, socket) {
  state.sockets.add(socket);
  let changes = [];
  let timer = null;
  let cursor = 0;
  const watcher = (change) => {
    changes.push(change);
    timer ??= setTimeout(() => {
      timer = null;
      const last = new Map(changes.map((one) => [one.id, one]));
      changes = [];
      if (last.size > 1_000) own.send({ type: "resync", cursor: ++cursor });
      else own.send({ type: "jobs", changes: [...last.values()], cursor: ++cursor });
    }, 50);
  };
  const own = accept(request, socket, {
    text(message) {
      const sent = JSON.parse(message);
      if (sent.type === "hello") {
        if (state.token && sent.token !== state.token) return own.end(4401);
        own.send({ type: "welcome", namespace: "default", scopes: state.scopes, now: new Date().toISOString() });
      }
      if (sent.type === "watch") {
        state.engine.watchers.add(watcher);
        own.send({ type: "watching", cursor });
      }
      if (sent.type === "ping") own.send({ type: "pong" });
    },
    close() {
      clearTimeout(timer);
      state.sockets.delete(socket);
      state.engine.watchers.delete(watcher);
    },
  });
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const { url } = await start({ port: Number(process.env.PORT ?? 4190), jobs: Number(process.env.JOBS ?? 100_000), queues: Number(process.env.QUEUES ?? 1_000) });
  console.log(`${url}#token=dev`);
}
