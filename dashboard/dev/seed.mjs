// Jobs, queues and workers that look like a bad night, the same at each start.

export const STATES = ["held", "scheduled", "ready", "active", "completed", "cancelled", "dead"];

/** Text that must be shown as text. */
export const HOSTILE = [
  `<script>window.pwned=1</script>`,
  `<img src=x onerror="window.pwned=1">`,
  `"><svg onload=window.pwned=1>`,
  `javascript:window.pwned=1`,
  `{{constructor.constructor('window.pwned=1')()}}`,
  `\u202Egnp.exe\u2066 \u0000\u001b[31mred\u0007 zero\u200bwidth`,
  `</textarea></style><iframe srcdoc="<script>parent.pwned=1</script>">`,
  "A".repeat(4_000),
  "Z̸̢̛̭̥a̵l̷g̶o̴ 𝕏 👩‍👩‍👧‍👦 مرحبا 你好",
];

export function random(seed) {
  let state = seed;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}

const hex = (value, digits) => Math.floor(value).toString(16).padStart(digits, "0");
export const makeId = (draw) =>
  `${hex(draw() * 2 ** 32, 8)}-${hex(draw() * 2 ** 16, 4)}-7${hex(draw() * 2 ** 12, 3)}-8${hex(draw() * 2 ** 12, 3)}-${hex(draw() * 2 ** 48, 12)}`;

export function seed({ jobs: count, queues: queueCount, now }) {
  const draw = random(7);
  const iso = (at) => new Date(at).toISOString();
  const named = [
    { queue: "orders", kind: "orders.cancel_unpaid", weight: 40 },
    { queue: "mail", kind: "mail.send", weight: 20 },
    { queue: "riders", kind: "riders.remind", weight: 10 },
    { queue: "parcels", kind: "parcels.confirm", weight: 15 },
    { queue: "uploads/video", kind: "uploads.transcode", weight: 3 },
    { queue: "reports", kind: "reports.weekly", weight: 1 },
    { queue: "webhooks", kind: "webhooks.deliver", weight: 6 },
    { queue: "search:index", kind: "search.reindex", weight: 4 },
  ].slice(0, queueCount);
  const queues = new Map(named.map(({ queue }) => [queue, { queue, paused: queue === "search:index", history: [] }]));
  for (let n = 0; queues.size < queueCount; n += 1) {
    const queue = `tenant-${String(n).padStart(4, "0")}`;
    queues.set(queue, { queue, paused: false, history: [] });
  }
  const bag = named.flatMap((entry) => Array(entry.weight).fill(entry));
  const others = [...queues.keys()].slice(named.length);
  const pick = (list) => list[Math.floor(draw() * list.length)];

  const jobs = new Map();
  const add = (fields) => {
    const id = makeId(draw);
    const queue = fields.queue;
    const job = {
      id, queue, kind: queue, content_type: "application/json", priority: 5, max_attempts: 20,
      retry: { policy: "exponential", base: "1s", factor: 2, cap: "1h", jitter: true }, retention: "0s",
      attempt: 0, failures: 0, crashes: 0, enqueued_at: iso(now - 3_600_000 * draw()), due: iso(now), payload: "{}", ...fields,
    };
    jobs.set(id, job);
    return job;
  };
  /** Attempts that ended in these ways, the last one at an instant: `[number, outcome, error]`. */
  const tried = (at, ends) =>
    ends.map(([attempt, outcome, error], nth) => {
      const end = at - (ends.length - 1 - nth) * 61_000;
      return { attempt, outcome, started_at: iso(end - (outcome === "crashed" ? 10_000 : 1_040 * attempt)), ended_at: iso(end), worker: nth % 2 ? "w1" : "5f0c6a1e-9d1b-4c55-8f7e-2f3b6c1d0a99", ...(error && { error }) };
    });
  const ended = (at) => ({ started_at: iso(at - 10_040), finished_at: iso(at) });
  const dead = (queue, kind, error, extra) =>
    add({
      queue, kind, state: "dead", dead: "exhausted", attempt: 5, failures: 5, max_attempts: 5, last_error: error,
      due: iso(now - 7_200_000), ...ended(now - 300_000 * draw()),
      payload: JSON.stringify({ to: `user${Math.floor(draw() * 900)}@example.org`, template: "receipt" }), ...extra,
    });

  const refused = "POST https://shop.example/hook: 503 Service Unavailable, after 10.0 s\n  caused by: upstream connect error";
  // One order whose settlement caused a receipt that waits and the first of the dead webhooks.
  const order = add({ queue: "orders", kind: "orders.place", state: "completed", retention: "1d", attempt: 1, started_at: iso(now - 7_202_000), finished_at: iso(now - 7_201_000), due: iso(now - 7_202_000), payload: `{"order":7001}`, result: { placed: true } });
  const followUp = { "punctual-parent": order.id };
  add({ queue: "mail", kind: "mail.receipt", state: "scheduled", due: iso(now + 1_800_000), headers: followUp, payload: `{"to":"ann@example.org","order":7001}` });
  for (let n = 0; n < 40; n += 1) {
    const attempts = tried(now - 40_000, [[1, "retry", "POST https://shop.example/hook: no answer within 30 s"], [2, "crashed"], [3, "retry", refused], [4, "retry", refused], [5, "retry", refused]]);
    dead("webhooks", "webhooks.deliver", refused, { attempts, failures: 4, crashes: 1, max_attempts: 4, headers: { traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", ...(n === 0 && followUp) } });
  }
  dead("mail", "mail.send", "smtp said 550 5.1.1 no such user", { dead: "permanent", attempt: 1, failures: 1, attempts: tried(now - 90_000, [[1, "dead", "smtp said 550 5.1.1 no such user"]]) });
  dead("uploads/video", "uploads.transcode", null, { dead: "poison", attempt: 4, failures: 0, crashes: 3, attempts: tried(now - 90_000, [[1, "released"], [2, "crashed"], [3, "crashed"], [4, "crashed"]]) });
  add({ queue: "mail", kind: "mail.stubborn", state: "scheduled", due: iso(now + 400_000), attempt: 14, failures: 13, last_error: "smtp said 451 try again", payload: `{"to":"ann@example.org"}`, attempts: tried(now - 20_000, [[1, "retry", "no route to host"], ...[6, 7, 8, 9, 10, 11, 12, 13].map((n) => [n, "retry", "smtp said 451 try again"]), [14, "snooze"]]) });
  HOSTILE.forEach((text, n) =>
    add({
      queue: "mail", kind: "mail.send", state: n % 2 ? "dead" : "scheduled", ...(n % 2 && { dead: "permanent", finished_at: iso(now - 60_000) }),
      due: iso(now + 60_000 * (n + 1)), payload: JSON.stringify({ hostile: text, [text.slice(0, 200)]: [text] }), last_error: text,
      unique: text.slice(0, 200).replace(/[\u0000-\u001f\u202a-\u202e\u2066-\u2069]/g, ""), headers: { "x-hostile": text.replace(/[\u0000-\u001f\u202a-\u202e\u2066-\u2069]/g, "") }, failures: 1, attempt: 1, attempts: tried(now - 60_000, [[1, "retry", text]]),
    }),
  );
  add({ queue: "mail", kind: "mail.big", state: "scheduled", due: iso(now + 5_000_000), payload: `{"big": 12345678901234567890.10,  "same": 1, "same": 2}` });
  add({ queue: "mail", kind: "mail.raw", state: "scheduled", due: iso(now + 5_100_000), payload_base64: "AAECA//+", payload: undefined, content_type: "application/octet-stream" });
  add({ queue: "orders", kind: "orders.ship", state: "held", wait_for: ["paid:7001", "picked:7001"], due: iso(now + 60_000), payload: `{"order":7001}` });
  const serial = { group: "customer:42" };
  add({ queue: "orders", kind: "orders.sync", state: "active", ...serial, attempt: 1, started_at: iso(now - 4_000), worker: "w0", lease_until: iso(now + 6_000), progress: { percent: 40 }, payload: `{"customer":42}` });
  add({ queue: "orders", kind: "orders.sync", state: "ready", ...serial, due: iso(now - 3_000), payload: `{"customer":42,"step":2}` });

  for (let n = 0; n < 700; n += 1) {
    add({ queue: "uploads/video", kind: "uploads.transcode", state: "ready", due: iso(now - 251_000 + n * 300), payload: JSON.stringify({ upload: n, source: `s3://incoming/${n}.mov` }) });
  }
  for (let n = 0; n < 60; n += 1) add({ queue: "search:index", kind: "search.reindex", state: "ready", due: iso(now - 90_000), payload: `{"shard":${n}}` });

  while (jobs.size < count) {
    const other = others.length && draw() < 0.3;
    const { queue, kind } = other ? ((name) => ({ queue: name, kind: "tenant.job" }))(pick(others)) : pick(bag);
    const order = Math.floor(draw() * 1e6);
    const roll = draw();
    const far = draw() ** 3 * 40 * 86_400_000;
    const base = { queue, kind, payload: JSON.stringify({ order, note: "unpaid" }), ...(queue === "orders" && { unique: `order:${jobs.size}` }) };
    if (roll < 0.9) add({ ...base, state: "scheduled", due: iso(now + 20_000 + far), ...(roll < 0.02 && { failures: 2, attempt: 2, last_error: "timed out after 30 s" }) });
    else if (roll < 0.97) add({ ...base, state: "cancelled", cancelled: "requested", stopped: "before_start", finished_at: iso(now - draw() * 80_000_000), due: iso(now + far) });
    else if (queue === "orders" || queue === "parcels") add({ ...base, state: "completed", retention: "1h", attempt: 1, started_at: iso(now - 60_000), finished_at: iso(now - draw() * 3_000_000), result: { cancelled: true } });
    else add({ ...base, state: "scheduled", due: iso(now + far) });
  }

  for (const { queue, history } of queues.values()) history.push(...pastOf(queue, now, draw));
  const worker = (n, host, names, slots, busy) => ({
    id: `w${n}`, host, version: "orders 4.2.1", queues: names, kinds: n === 1 ? ["mail.send"] : [], slots, busy, leased: busy, seen_at: iso(now - 400),
  });
  const workers = [
    worker(0, "app-1.shanghai", ["orders", "parcels", "riders"], 64, 3),
    worker(1, "app-2.shanghai", ["mail", "webhooks"], 32, 30),
    worker(2, "batch-1", ["reports", ...others], 8, 0),
  ].map((one) => ({ ...one, queues: one.queues.filter((name) => queues.has(name)) }));
  return { jobs, queues, workers, draw };
}

function pastOf(queue, now, draw) {
  const busy = { orders: 900, mail: 400, riders: 120, parcels: 300, webhooks: 80 }[queue] ?? (draw() < 0.1 ? 5 : 0);
  if (!busy) return [];
  const minutes = [];
  for (let back = 24 * 60; back >= 0; back -= 1) {
    const at = Math.floor(now / 60_000) * 60_000 - back * 60_000;
    const wave = 1 + 0.6 * Math.sin((at / 86_400_000) * 2 * Math.PI) + 0.2 * draw();
    const done = Math.round(busy * wave);
    const sick = queue === "webhooks" && back < 35;
    minutes.push({
      minute: new Date(at).toISOString(), enqueued: Math.round(done * (1 + 0.1 * draw())), claimed: done, completed: sick ? Math.round(done * 0.3) : done,
      failed: sick ? Math.round(done * 0.7) : Math.round(done * 0.004), dead: sick && back < 20 ? Math.round(4 * draw()) : 0, cancelled: 0,
      lateness_us: { p50: Math.round(250 + 120 * draw()), p99: Math.round((sick ? 60_000 : 2_200) * (1 + draw())) },
      run_time_us: { p50: Math.round(4_000 + 900 * draw()), p99: Math.round((sick ? 9_800_000 : 42_000) * (1 + 0.2 * draw())) },
    });
  }
  return minutes;
}
