// A stand-in for an engine: enough of docs/http-api.md for the page, in memory, in no hurry.
import { FakeFlows } from "./flows.mjs";
import { FakeLimits, FakeNamedLimits, FakeShares } from "./limits.mjs";
import { STATES, makeId, seed } from "./seed.mjs";

const pending = new Set(["held", "scheduled", "ready"]);
const settled = new Set(["completed", "cancelled", "dead"]);
const SPANS = { d: 864e5, h: 36e5, m: 6e4, s: 1e3, ms: 1 };
const spanOf = (text) => [...text.matchAll(/([\d.]+)(d|h|ms|m|s)/g)].reduce((sum, [, n, unit]) => sum + n * SPANS[unit], 0);

export class Refused extends Error {
  constructor(status, code, message, hint) {
    super(message);
    Object.assign(this, { status, code, hint });
  }
}

export class FakeEngine {
  constructor({ jobs = 100_000, queues = 1_000 } = {}) {
    this.now = () => Date.now();
    Object.assign(this, seed({ jobs, queues, now: this.now() }));
    this.watchers = new Set();
    this.broken = [];
    this.settings = new Map();
    this.flows = new FakeFlows(() => this.now());
    this.limits = new FakeLimits();
    this.shares = new FakeShares();
    this.namedLimits = new FakeNamedLimits();
    this.relays = relaysOf();
    this.locks = [];
    this.subscriptions = subscriptionsOf();
    this.audit = auditOf(this.now());
    this.counts = new Map();
    for (const job of this.jobs.values()) this.#count(job, 1);
  }

  #count(job, by) {
    if (!this.queues.has(job.queue)) this.queues.set(job.queue, { queue: job.queue, paused: false, history: [] });
    let counts = this.counts.get(job.queue);
    if (!counts) this.counts.set(job.queue, (counts = Object.fromEntries(STATES.map((state) => [state, 0]))));
    counts[job.state] += by;
  }

  move(job, state, fields = {}) {
    this.#count(job, -1);
    Object.assign(job, { state }, fields);
    this.#count(job, 1);
    this.announce(job);
  }

  announce(job) {
    const change = { id: job.id, queue: job.queue, state: job.state, at: new Date(this.now()).toISOString() };
    for (const watcher of this.watchers) watcher(change);
  }

  info() {
    return {
      engine: "memory", version: "0.1.0", durability: "memory", capabilities: ["delay", "priority", "unique_keep", "groups", "effects", "explain", "history", "schedules", "flows", "queue_limits", "shares", "named_limits"], settled_window: "2m", clock_jumps: 0,
      limits: { payload_bytes: 1_048_576, header_bytes: 8_192, result_bytes: 65_536, batch_items: 10_000, batch_bytes: 4_194_304, wait_for_names: 64, effects: 64 },
      store_bytes: 48_000_000, shards: 1, process: { version: "0.1.0", uptime_ms: 93_600_000, memory_bytes: 71_000_000 },
      health: { ok: !this.broken.length, problems: this.broken, loops: [{ name: "sweep", age_ms: 340, restarts: 0 }, { name: "due", age_ms: 12, restarts: 0 }] },
    };
  }

  /** A few that stand still: enough to draw the pages. */
  schedules() {
    const hour = (n) => new Date((Math.floor(this.now() / 36e5) + n) * 36e5).toISOString();
    const one = (name, schedule, fields = {}) => ({ name, version: 1, schedule, next: Array.from({ length: 16 }, (_, n) => hour(24 * n + 1)), dry: false, ended: false, fired: 182, skipped: 0, missed: 0, lasts_until: hour(385), ...fields });
    return [
      one("invoices", { cron: ["0 6 1 * *"], zone: "America/New_York", job: { queue: "billing", payload: {} } }, { fired: 11 }),
      one("month-end", { cron: ["30 23 L * *"], zone: "Europe/Berlin", paused: true, note: "holiday until January", job: { queue: "reports", payload: {} } }, { fired: 10, skipped: 1 }),
      one("refresh-rates", { every: ["5m"], job: { queue: "rates", payload: {} } }, { fired: 48_211, missed: 3 }),
      one("weekly-report", { cron: ["0 9 * * MON"], except: ["* * 25,26 12 *"], zone: "Europe/Berlin", job: { queue: "reports", kind: "weekly", payload: { to: "team" } } }),
    ];
  }

  stats({ queues = [], history, due, ends, total, minutes = 1_440 }) {
    if (total) return this.#total(queues, minutes);
    const wanted = queues.length ? queues.map((name) => this.queues.get(name)).filter(Boolean) : [...this.queues.values()];
    const buckets = due ? this.#dueBuckets() : null;
    const oldest = this.#oldest();
    return {
      queues: wanted.map((queue) => {
        const waits = oldest.get(queue.queue);
        return {
          queue: queue.queue, paused: queue.paused, ...(this.counts.get(queue.queue) ?? Object.fromEntries(STATES.map((state) => [state, 0]))),
          ...(waits !== undefined && { oldest_due_ms: this.now() - waits }),
          ...(this.limits.of.has(queue.queue) && { limits: this.limits.of.get(queue.queue) }), ...(history && { history: queue.history }), ...(due && { due: buckets.get(queue.queue) ?? [] }), ...(ends && { ends: this.ends(queue.queue) }),
        };
      }),
      workers: this.workers, exact: true,
    };
  }

  #total(queues, minutes) {
    const { queues: counted, ...rest } = this.stats({ queues, history: true, due: true });
    const now = this.now();
    const since = new Date(now - minutes * 60_000).toISOString();
    const recent = new Date((Math.floor(now / 60_000) - 5) * 60_000).toISOString();
    const history = sum(counted.flatMap((queue) => queue.history).filter((one) => one.minute >= since), (one) => one.minute);
    const due = new Map();
    for (const bucket of counted.flatMap((queue) => queue.due)) due.set(bucket.from, { ...bucket, jobs: bucket.jobs + (due.get(bucket.from)?.jobs ?? 0) });
    return {
      ...rest, total: { history, due: [...due.values()].sort((a, b) => (a.from < b.from ? -1 : 1)) },
      queues: counted.map(({ history, due: _, ...queue }) => {
        const [of] = sum(history.filter((one) => one.minute >= recent), () => "");
        return of ? { ...queue, recent: of } : queue;
      }),
    };
  }

  #oldest() {
    const oldest = new Map();
    for (const job of this.jobs.values()) {
      if (job.state !== "ready" || job.group) continue; // a group that is kept back does not count
      const at = Date.parse(job.due);
      oldest.set(job.queue, Math.min(oldest.get(job.queue) ?? Infinity, at));
    }
    return oldest;
  }

  #dueBuckets() {
    const now = this.now();
    const edges = [];
    let from = now;
    for (const [width, times] of [[6e4, 10], [6e5, 5], [36e5, 23], [864e5, 30]]) for (let n = 0; n < times; n += 1) edges.push([from, (from += width)]);
    const perQueue = new Map();
    for (const job of this.jobs.values()) {
      if (job.state !== "scheduled") continue;
      const at = Date.parse(job.due);
      let low = 0;
      while (low < edges.length && at >= edges[low][1]) low += 1;
      let counts = perQueue.get(job.queue);
      if (!counts) perQueue.set(job.queue, (counts = new Map()));
      counts.set(low, (counts.get(low) ?? 0) + 1);
    }
    const iso = (at) => new Date(at).toISOString();
    return new Map([...perQueue].map(([queue, counts]) => [queue, [...counts].sort((a, b) => a[0] - b[0]).map(([at, jobs]) =>
      at < edges.length ? { from: iso(edges[at][0]), until: iso(edges[at][1]), jobs } : { from: iso(from), until: "9999-12-31T23:59:59.999Z", jobs })]));
  }

  /** The last hundred jobs of a queue that ended, the latest first. */
  ends(queue) {
    const found = [...this.jobs.values()].filter((job) => job.queue === queue && settled.has(job.state) && job.finished_at);
    return found.sort((a, b) => (a.finished_at < b.finished_at ? 1 : -1)).slice(0, 100).map(({ id, kind, state, finished_at: at }) => ({ id, kind, state, at }));
  }

  deadGroups({ queues, kind }) {
    const groups = new Map();
    let examined = 0;
    for (const job of this.jobs.values()) {
      if (job.state !== "dead" || (queues.length && !queues.includes(job.queue)) || (kind && job.kind !== kind)) continue;
      examined += 1;
      const error = (job.last_error ?? job.dead).split("\n")[0].slice(0, 200).replace(/\d+/g, "#");
      const name = [job.queue, job.kind, error].join("\n");
      const group = groups.get(name) ?? { queue: job.queue, kind: job.kind, error, jobs: 0, first: job.finished_at, last: "", example: job.id };
      group.jobs += 1;
      if (job.finished_at < group.first) group.first = job.finished_at;
      if (job.finished_at > group.last) Object.assign(group, { last: job.finished_at, example: job.id });
      if (job.last_error) group.search = error.split("#").reduce((longest, piece) => (piece.length > longest.length ? piece : longest), "").trim();
      groups.set(name, group);
    }
    return { groups: [...groups.values()].sort((a, b) => b.jobs - a.jobs || (a.last < b.last ? 1 : -1)), others: 0, examined, complete: true };
  }

  /** Of each state the first thousand, as the gateway does. */
  kinds(queue) {
    const lines = new Map();
    const seen = {};
    for (const job of this.jobs.values()) {
      if (job.queue !== queue || (seen[job.state] = (seen[job.state] ?? 0) + 1) > 1_000) continue;
      let line = lines.get(job.kind);
      if (!line) lines.set(job.kind, (line = { kind: job.kind, ...Object.fromEntries(STATES.map((state) => [state, 0])), failures: 0, crashes: 0 }));
      line[job.state] += 1;
      line.failures += job.failures ?? 0;
      line.crashes += job.crashes ?? 0;
      if (job.state === "ready") line.oldest_due_ms = Math.max(line.oldest_due_ms ?? 0, this.now() - Date.parse(job.due));
    }
    return { queue, kinds: [...lines.values()].sort((a, b) => (a.kind < b.kind ? -1 : 1)), exact: Object.values(seen).every((many) => many <= 1_000) };
  }

  matches(job, filter) {
    const payload = filter.text === undefined ? "" : (job.payload ?? "");
    return (!filter.queue || job.queue === filter.queue) && (!filter.state || job.state === filter.state) && (!filter.kind || job.kind === filter.kind) && (!filter.error || job.last_error?.includes(filter.error)) &&
      (!filter.unique || keyOf(job.unique) === filter.unique) && (!filter.group || keyOf(job.group) === filter.group) && (!filter.limit_name || job.limits?.includes(filter.limit_name)) && (filter.text === undefined || payload.includes(filter.text)) &&
      (!filter.due_from || job.due >= filter.due_from) && (!filter.due_before || job.due < filter.due_before);
  }

  list(query, { cursor, limit }) {
    if ((query.unique || query.group) && !query.queue) throw new Refused(422, "invalid_input", "unique and group need a queue");
    const indexed = (query.queue && query.state) || query.unique || query.group || query.limit_name;
    if (indexed) {
      const order = settled.has(query.state) ? (a, b) => (a.finished_at < b.finished_at ? 1 : -1) : (a, b) => (a.due > b.due ? 1 : a.due < b.due ? -1 : 0);
      const key = JSON.stringify(query);
      if (!cursor || this.cached?.key !== key) this.cached = { key, found: [...this.jobs.values()].filter((job) => this.matches(job, query)).sort(order) };
      const start = Number(cursor ?? 0);
      const jobs = this.cached.found.slice(start, start + limit);
      const more = start + limit < this.cached.found.length;
      return { jobs, examined: jobs.length, ...(more && { cursor: String(start + limit) }) };
    }
    const ids = (this.ids?.length === this.jobs.size ? this.ids : (this.ids = [...this.jobs.keys()]));
    const found = [];
    let at = Number(cursor ?? 0);
    const end = Math.min(ids.length, at + 1_000);
    const start = at;
    for (; at < end && found.length < limit; at += 1) {
      const job = this.jobs.get(ids[at]);
      if (job && this.matches(job, query)) found.push(job);
    }
    return { jobs: found, examined: at - start, ...(at < ids.length && { cursor: String(at) }) };
  }

  edit(action, { ids, filter, cursor, limit, dryRun }) {
    let chosen = ids;
    let next;
    let examined = ids?.length;
    if (filter) {
      if (!Object.keys(filter).length) throw new Refused(422, "invalid_input", "the filter is empty");
      const all = [...this.jobs.values()];
      const start = Number(cursor ?? 0);
      const part = all.slice(start, start + limit);
      chosen = part.filter((job) => this.matches(job, filter)).map((job) => job.id);
      examined = part.length;
      if (start + limit < all.length) next = String(start + limit);
    }
    const jobs = chosen.map((id, target) => ({ ...(ids && { target }), id, ...this.#editOne(this.jobs.get(id), action, dryRun) }));
    const verdicts = {};
    for (const { verdict } of jobs) verdicts[verdict] = (verdicts[verdict] ?? 0) + 1;
    const changed = (verdicts.done ?? 0) + (verdicts.cancel_requested ?? 0);
    return { dry_run: dryRun, examined, matched: jobs.filter((job) => job.verdict !== "not_found").length, changed, verdicts, jobs, ...(next && { cursor: next }) };
  }

  #editOne(job, action, dryRun) {
    if (!job) return { verdict: "not_found" };
    const name = typeof action === "string" ? action : Object.keys(action)[0];
    const now = new Date(this.now()).toISOString();
    const { state } = job;
    const done = (to, fields) => {
      if (!dryRun) this.move(job, to, fields);
      return { verdict: "done", state: to };
    };
    const wrong = state === "active" ? { verdict: "job_active" } : { verdict: "wrong_state", state };
    switch (name) {
      case "cancel":
        if (state === "active") return dryRun || ((job.cancel_requested = true), this.announce(job)), { verdict: "cancel_requested" };
        if (state === "cancelled") return { verdict: "already_cancelled" };
        return pending.has(state) ? done("cancelled", { cancelled: "requested", stopped: "before_start", finished_at: now }) : wrong;
      case "run_now":
        return pending.has(state) ? done("ready", { due: now, wait_for: undefined }) : wrong;
      case "redrive":
        return settled.has(state) ? done("ready", { due: now, failures: 0, crashes: 0, dead: undefined, cancelled: undefined, last_error: undefined, finished_at: undefined }) : wrong;
      case "delete":
        if (!settled.has(state)) return wrong;
        if (!dryRun) {
          this.#count(job, -1);
          this.jobs.delete(job.id);
          this.announce(job);
        }
        return { verdict: "done", state };
      case "reschedule": {
        if (!pending.has(state)) return wrong;
        const { delay, at } = action.reschedule;
        const due = at ?? new Date(this.now() + spanOf(delay)).toISOString();
        return done(state === "held" ? state : due > now ? "scheduled" : "ready", { due });
      }
      case "reprioritise":
        return pending.has(state) ? done(state, { priority: action.reprioritise }) : wrong;
      default:
        throw new Refused(422, "invalid_input", "no such action");
    }
  }

  enqueue(sent, payload) {
    if (!/^[\w.:/-]{1,128}$/.test(sent.queue ?? "")) throw new Refused(422, "invalid_name", "queue name has a character that is not allowed", "use 1 to 128 of a-z A-Z 0-9 . _ - : /");
    const now = this.now();
    const due = sent.at ?? new Date(now + (sent.delay ? spanOf(sent.delay) : 0)).toISOString();
    const { delay: _, at: __, ...fields } = sent;
    const id = sent.id ?? makeId(this.draw);
    const holder = sent.unique && [...this.jobs.values()].find((job) => job.queue === sent.queue && keyOf(job.unique) === keyOf(sent.unique) && !settled.has(job.state));
    if (holder) return { id, verdict: "merged", holder: holder.id, due: holder.due, late: false };
    const job = {
      kind: sent.queue, content_type: "application/json", priority: 5, max_attempts: 20, retention: "0s", retry: { policy: "exponential", base: "1s", factor: 2, cap: "1h", jitter: true },
      attempt: 0, failures: 0, crashes: 0, ...fields, id, payload, due, enqueued_at: new Date(now).toISOString(), state: sent.wait_for?.length ? "held" : Date.parse(due) > now ? "scheduled" : "ready",
    };
    this.jobs.set(id, job);
    this.#count(job, 1);
    this.announce(job);
    return { id, verdict: "created", due, late: false };
  }

  explain(job) {
    const queue = this.queues.get(job.queue);
    const workers = this.workers.filter((worker) => worker.queues.includes(job.queue));
    switch (job.state) {
      case "held": return job.flow && !job.wait_for ? [{ reason: "waits_for_jobs", waits: 1, jobs: [] }] : [{ reason: "waits_for_names", names: job.wait_for ?? [] }];
      case "scheduled": return [...(queue.paused ? [{ reason: "queue_paused" }] : []), job.failures ? { reason: "waits_for_retry", due: job.due, failures: job.failures } : { reason: "not_due", due: job.due }];
      case "active": return [{ reason: "active", worker: job.worker, since: job.started_at, until: job.lease_until }];
      case "completed": return [{ reason: "completed" }];
      case "cancelled": return [{ reason: "cancelled", why: job.cancelled }];
      case "dead": return [{ reason: "dead", why: job.dead }];
      default: {
        const by = job.group && [...this.jobs.values()].find((other) => other.state === "active" && other.queue === job.queue && keyOf(other.group) === keyOf(job.group));
        return [...(queue.paused ? [{ reason: "queue_paused" }] : []), ...(by ? [{ reason: "group_active", by: by.id }] : []), ...(workers.length ? [] : [{ reason: "no_worker" }]), { reason: "in_line", ahead: 12 }];
      }
    }
  }

  /** Lets a second pass: what is due becomes ready, workers take it and end it. */
  tick() {
    const now = this.now();
    const iso = (at) => new Date(at).toISOString();
    const minute = iso(Math.floor(now / 60_000) * 60_000);
    const busy = new Map(this.workers.map((worker) => [worker.id, 0]));
    for (const job of [...this.jobs.values()]) {
      const queue = this.queues.get(job.queue);
      if (job.state === "scheduled" && Date.parse(job.due) <= now) this.move(job, "ready");
      const worker = this.workers.find((one) => one.queues.includes(job.queue));
      if (job.state === "ready" && worker && !queue.paused && !job.group && busy.get(worker.id) < worker.slots && this.draw() < 0.6) {
        this.move(job, "active", { attempt: job.attempt + 1, started_at: iso(now), worker: worker.id, lease_until: iso(now + 10_000) });
      } else if (job.state === "active" && !job.group && this.draw() < 0.5) {
        let last = queue.history.at(-1);
        if (last?.minute !== minute) queue.history.push((last = { minute, enqueued: 0, claimed: 0, completed: 0, failed: 0, dead: 0, cancelled: 0, lateness_us: { p50: 300, p99: 2_000 }, run_time_us: { p50: 4_000, p99: 40_000 } }));
        last.claimed += 1;
        last.completed += 1;
        this.move(job, "completed", { finished_at: iso(now), worker: undefined, lease_until: undefined });
      }
      if (job.state === "active" && busy.has(job.worker)) busy.set(job.worker, busy.get(job.worker) + 1);
      if (job.state === "active") job.lease_until = iso(now + 10_000);
    }
    for (const worker of this.workers) Object.assign(worker, { seen_at: iso(now - 300), busy: worker.id === "w1" ? 30 : busy.get(worker.id), leased: busy.get(worker.id) });
  }
}

/** What people changed in that night. */
function auditOf(now) {
  const entry = (minutes, who, action, on, phase, more) => ({ id: `a${minutes}`, at: new Date(now - minutes * 60_000).toISOString(), who, namespace: "default", action, on, phase, ...more });
  return [
    entry(2, "ann", "redrive", "jobs queue=webhooks state=dead kind=webhooks.deliver", "done", { matched: 12 }),
    entry(9, "ann", "pause", "search:index", "done", { matched: 1 }),
    entry(31, "deploy", "write", "queue/orders", "failed", { error: "version_conflict" }),
    entry(48, "local", "purge", "reports", "begun"),
    entry(95, "bob", "cancel", "job 01994f2e-8a51-7c3e-8000-3f0f4c1d2b7a", "done", { matched: 1 }),
  ];
}

/** Minutes added up by a name of each, in the order of the names. */
function sum(minutes, nameOf) {
  const sums = new Map();
  for (const minute of minutes) {
    const name = nameOf(minute);
    const to = sums.get(name) ?? { minute: minute.minute, enqueued: 0, claimed: 0, completed: 0, failed: 0, dead: 0, cancelled: 0 };
    for (const what of ["enqueued", "claimed", "completed", "failed", "dead", "cancelled"]) to[what] += minute[what];
    for (const what of ["lateness_us", "run_time_us"]) {
      if (minute[what]) to[what] = { p50: to[what]?.p50 ?? minute[what].p50, p99: Math.max(to[what]?.p99 ?? 0, minute[what].p99) };
    }
    sums.set(name, to);
  }
  return [...sums.values()].sort((a, b) => (a.minute < b.minute ? -1 : 1));
}

const keyOf = (key) => (typeof key === "object" && key ? key.key : key);

/** Subscriptions with and without filters, and one whose texts must be shown as text. */
function subscriptionsOf() {
  return [
    { name: "audit", pattern: "orders.>", queue: "audit", delivery: "enqueue" },
    { name: "mailer", pattern: "orders.*.paid", queue: "mail", delivery: "enqueue", filters: [{ on: "country", one_of: ["de"] }, { on: "amount", min: 1, max: 9 }] },
    { name: "stop", pattern: "orders.*.paid", queue: "reminders", delivery: "cancel", filters: [{ on: "@kind", prefix: "<img src=x onerror=alert(1)>" }] },
  ];
}

/** A relay of each state, and one whose texts must be shown as text. */
function relaysOf() {
  const one = (name, kind, queue, fields = {}) => ({ name, kind, queue, refused_queue: `relay.${name}.refused`, state: "running", rate: 0, received: 0, enqueued: 0, duplicates: 0, refused: 0, emitted: 0, restarts: 0, age_ms: 120, ...fields });
  return [
    one("files", "redis-stream", "files", { rate: 412, lag: 1_204, received: 91_204, enqueued: 91_200, refused: 4, last_error: "entry 17-0 has no field \"body\"" }),
    one("mail", "redis-list", "mail", { state: "engine_refuses", lag: 48_211, last_error: "the queue has reached max_pending; raise it or let workers go on (queue: mail)" }),
    one("orders", "amqp-delay", "amqp.orders.delayed", { state: "down", restarts: 12, emitted: 7_003, age_ms: 4_200, last_error: "the broker does not answer in 10 s; is it running? <img src=x onerror=alert(1)>" }),
    one("shop", "outbox", "outbox", { state: "connecting" }),
  ];
}
