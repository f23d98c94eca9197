// What the page reckons, without a browser.
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { build } from "esbuild";

const SOURCES = ["json", "search", "time", "history", "problems", "bulk", "headers", "flow", "limits", "timeline"];
let folder;
const model = {};
before(async () => {
  globalThis.sessionStorage = { getItem: () => null, setItem() {} };
  globalThis.localStorage = globalThis.sessionStorage;
  globalThis.location = { hash: "" };
  globalThis.document = { documentElement: { dataset: {} } };
  globalThis.navigator ??= { language: "en" };
  folder = await mkdtemp(join(tmpdir(), "punctual-model-"));
  const entryPoints = Object.fromEntries([...SOURCES.map((name) => [name, `src/model/${name}.ts`]), ["en", "src/words/en.ts"], ["zh", "src/words/zh.ts"]]);
  await build({ entryPoints, bundle: true, format: "esm", outdir: folder, outExtension: { ".js": ".mjs" }, logLevel: "error" });
  for (const name of Object.keys(entryPoints)) Object.assign(model, await import(join(folder, `${name}.mjs`)));
});
after(() => rm(folder, { recursive: true, force: true }));

test("JSON is read as JSON.parse reads it, or refused as it refuses", () => {
  const good = ['{"a":[1,-2.5e3,"x\\n\\u0041",true,null,{}]}', " [ ] ", '"\\\\"', "0", '{"a":1,"a":2}'];
  const bad = ["", "{", "[1,]", "{a:1}", "01", "'x'", '{"a":1}x', "nul", '"\u0001"', "[1 2]", "1e", "-"];
  for (const text of good) assert.ok(model.readJson(text), text);
  for (const text of bad) {
    assert.equal(model.readJson(text), null, text);
    assert.throws(() => JSON.parse(text));
  }
  assert.equal(model.readJson("[".repeat(100_000)), null);
});

test("a field of an answer is cut out byte for byte", () => {
  const text = '{"id":"x","payload": {"n": 12345678901234567890.10, "s":"}\\""} ,"state":"dead"}';
  assert.equal(model.rawField(text, "payload"), '{"n": 12345678901234567890.10, "s":"}\\""}');
  assert.equal(model.rawField(text, "none"), null);
  const deep = `${"[".repeat(50_000)}${"]".repeat(50_000)}`;
  assert.equal(model.rawField(`{"id":"x","payload":${deep},"now":"y"}`, "payload"), deep);
  for (const value of ["1", "-2.5e3", "null", '""', "[]", "{}", '"]}"', '[{"payload":7}]']) {
    assert.equal(model.rawField(`{"a":{"payload":0},"payload":${value}}`, "payload"), value);
    assert.equal(model.rawField(` {"payload" : ${value} , "z":1}`, "payload"), value);
  }
  for (const broken of ["", "[1]", '{"payload":', '{"payload":"x']) assert.equal(model.rawField(broken, "payload"), null);
});

test("a body keeps the text of its payload", () => {
  assert.equal(model.withPayload({ queue: "q" }, "{ \"n\":1.0 }"), '{"queue":"q","payload":{ "n":1.0 }}');
  assert.equal(model.withPayload({}, "1"), '{"payload":1}');
});

test("a search is read into fields, and the rest is text", () => {
  assert.deepEqual(model.readSearch('queue:mail state:dead unique:"order 7" refund now'), { queue: "mail", state: "dead", unique: "order 7", text: "refund now" });
  assert.deepEqual(model.readSearch("customer:42 x"), { text: "customer:42 x" });
  assert.equal(model.idEnd(" 8A51-7C3E "), "8a517c3e");
  for (const none of ["8a517c3", "8a517c3g", "refund", "0".repeat(32), ""]) assert.equal(model.idEnd(none), null, none);
  assert.deepEqual(model.readSearch("group:customer:42"), { group: "customer:42" });
});

test("a list with a queue or a state goes by an index, and over full queues only", () => {
  const counts = { held: 0, scheduled: 0, ready: 0, active: 0, completed: 0, cancelled: 0, dead: 0 };
  const queues = [{ ...counts, queue: "a", dead: 1 }, { ...counts, queue: "b" }, { ...counts, queue: "c", dead: 5, ready: 1 }];
  assert.deepEqual(model.plan({ state: "dead" }, queues).map((one) => one.queue), ["c", "a"]);
  assert.deepEqual(model.plan({ queue: "c", text: "x" }, queues).map((one) => one.state), ["ready", "dead"]);
  assert.deepEqual(model.plan({ text: "x" }, queues), [{ text: "x" }]);
  assert.equal(model.expected({ state: "dead" }, queues), 6);
  assert.equal(model.expected({ state: "dead", kind: "k" }, queues), null);
  assert.equal(model.toFilter({}), null, "an empty filter would be every job");
  assert.equal(model.toFilter({ queue: "a", unique: "k" }), null);
});

test("a job names what it follows from by a header in any case, if that is an id, and a copy does not", () => {
  const id = "01994f2e-8a51-7c3e-8000-3f0f4c1d2b7a";
  assert.equal(model.parentOf({ "Punctual-Parent": id.toUpperCase() }), id);
  assert.equal(model.parentOf([["a", "b"], ["punctual-parent", id]]), id);
  for (const headers of [undefined, {}, { "punctual-parent": "<b>" }, { parent: id }, [["x", id]]]) assert.equal(model.parentOf(headers), null);
  assert.deepEqual(model.withoutParent({ a: "b", "Punctual-parent": id }), { a: "b" });
  assert.deepEqual(model.withoutParent([["a", "b"], ["a", "c"], ["punctual-parent", id]]), [["a", "b"], ["a", "c"]]);
  assert.equal(model.withoutParent({ "punctual-parent": id }), undefined);
});

test("spans and instants are read and written", () => {
  assert.equal(model.readSpan("1h30m"), 5_400_000);
  assert.equal(model.readSpan("1.5s"), 1_500);
  for (const text of ["", "5", "1h x", "h"]) assert.equal(model.readSpan(text), null, text);
  assert.equal(model.readInstant("next week"), null);
  assert.ok(Math.abs(Date.parse(model.readInstant("-30m")) - Date.now() + 1_800_000) < 1_000);
  assert.deepEqual([0.21, 4.25, 950, 4_200, 200_000, 7_500_000, 1e9].map(model.span), ["210 µs", "4.3 ms", "950 ms", "4.2 s", "3m 20s", "2h 5m", "11d"]);
});

test("history of several queues is one: counts summed, p99 the worst, the present minute left out", () => {
  const now = Date.parse("2026-11-21T10:05:30Z");
  const minute = (at, completed, p99) => ({ minute: at, enqueued: 0, claimed: completed, completed, failed: 0, dead: 0, cancelled: 0, lateness_us: { p50: p99 / 2, p99 } });
  const a = [minute("2026-11-21T10:04:00Z", 10, 2_000), minute("2026-11-21T10:05:00Z", 99, 9_000)];
  const b = [minute("2026-11-21T10:04:00Z", 5, 4_000)];
  const { at, completed, late99 } = model.series([a, b], now, 3, 1);
  assert.equal(at.at(-1), Date.parse("2026-11-21T10:04:00Z") / 1_000);
  assert.deepEqual(completed, [0, 0, 15]);
  assert.deepEqual(late99, [null, null, 4]);
});

test("the charts of a young server start with its first data", () => {
  const now = Date.parse("2026-11-21T10:05:30Z");
  const minute = (back) => ({ minute: new Date(Math.floor(now / 60_000) * 60_000 - back * 60_000).toISOString(), enqueued: 1, claimed: 1, completed: 1, failed: 0, dead: 0, cancelled: 0 });
  const young = model.series([[minute(20), minute(3)]], now, 60, 1);
  assert.deepEqual([young.at.length, young.completed[0], young.late99.length], [20, 1, 20]);
  assert.equal(model.series([[minute(90), minute(3)]], now, 60, 1).at.length, 60, "there was a time before: it was quiet");
  assert.equal(model.series([[minute(2)]], now, 60, 1).at.length, 10, "never fewer than ten steps");
  assert.equal(model.series([[]], now, 60, 1).at.length, 60);
  for (const step of [1, 5]) {
    const first = model.series([[minute(0)]], now, 60, step);
    assert.deepEqual([first.at.length, first.completed.at(-1)], [10, 1], "the first minute is shown while it runs");
  }
});

test("one false sample of lateness does not press the others flat", () => {
  const good = [2, 3, null, 4, 80, 5];
  const years = 56 * 365 * 864e5;
  assert.equal(model.axisTop([[...good, years]]), 100, "the axis ends at the decade of the others");
  assert.equal(model.axisTop([good]), null);
  assert.equal(model.axisTop([[...good, 60_000]]), null, "an outage is no false sample");
  assert.equal(model.axisTop([[2, 3, years, years, years]]), null, "what comes again and again is so");
  assert.equal(model.axisTop([[years]]), null);
  assert.equal(model.axisTop([[1, null, 2], [null, years, 1]]), 10, "in any of the lines");
});

test("free slots are those that neither a run nor a lease takes, and never fewer than none", () => {
  const worker = { id: "w", host: "h", version: "", queues: ["q"], kinds: [], slots: 4, busy: 0, leased: 4, seen_at: "" };
  const queue = { queue: "q", paused: false, held: 0, scheduled: 0, ready: 3, active: 4, completed: 0, cancelled: 0, dead: 0, oldest_due_ms: 20_000 };
  assert.deepEqual(model.problemsOf(queue, [worker], null, model.en), [], "a worker that says no busy, but holds four leases, is busy");
  assert.deepEqual(model.problemsOf(queue, [{ ...worker, leased: 9 }], null, model.en), []);
  assert.equal(model.problemsOf(queue, [{ ...worker, leased: 9 }, { ...worker, leased: 0 }], null, model.en)[0].level, "bad", "one with too many takes no slot of another");
  assert.deepEqual(model.loadOf([{ ...worker, leased: 9 }, { ...worker, leased: 1 }]), { slots: 8, busy: 5 });
});

test("what falls due is counted once, in the bar of its time or later", () => {
  const now = Date.parse("2026-11-21T10:00:00Z");
  const bucket = (from, until, jobs) => ({ from: new Date(now + from * 60_000).toISOString(), until: new Date(now + until * 60_000).toISOString(), jobs });
  const buckets = [bucket(0, 1, 3), bucket(1, 2, 4), bucket(20, 30, 5), bucket(60, 120, 7)];
  for (const range of ["tenMinutes", "hour", "day", "month"]) {
    const { bars, later } = model.dueBars(buckets, now, range);
    assert.equal(bars.reduce((sum, bar) => sum + bar.jobs, later), 19, range);
  }
  assert.deepEqual(model.dueBars(buckets, now, "hour").bars.map((bar) => bar.jobs), [7, 0, 5, 0, 0, 0]);
});

test("trouble is named once, the worst first", () => {
  const queue = { queue: "q", paused: false, held: 0, scheduled: 0, ready: 3, active: 0, completed: 0, cancelled: 0, dead: 0, oldest_due_ms: 20_000 };
  const worker = { id: "w", host: "h", version: "", queues: ["q"], kinds: [], slots: 2, busy: 0, leased: 0, seen_at: "" };
  const of = (fields, workers, past = null) => model.problemsOf({ ...queue, ...fields }, workers, past, model.en);
  assert.match(of({}, [])[0].text, /no worker claims/);
  assert.equal(of({}, [worker])[0].level, "bad", "free workers and a job that waits: something is broken");
  assert.deepEqual(of({}, [{ ...worker, busy: 2 }]), [], "twenty seconds behind busy workers is no alarm");
  assert.equal(of({ oldest_due_ms: 90_000 }, [{ ...worker, busy: 2 }])[0].level, "warn");
  assert.equal(of({ paused: true }, [])[0].level, "warn");
  assert.deepEqual(of({ oldest_due_ms: 2_000 }, []), []);
  const past = { completed: 10, ended: 20, failed: 10, dead: 2, lateness99: 2_000_000 };
  assert.deepEqual(model.sortProblems(of({ ready: 0, oldest_due_ms: undefined }, [], past)).map((one) => one.level), ["bad", "warn", "warn"]);
  const found = [of({}, []), of({}, [worker]), of({ oldest_due_ms: 90_000 }, [{ ...worker, busy: 2 }]), of({ paused: true }, []), of({}, [], past)].flat();
  for (const one of found) assert.ok(one.hint, `${one.text}: what helps?`);
});

test("both languages have the same words", () => {
  const shape = (words) => Object.entries(words).map(([name, value]) => (value && typeof value === "object" ? `${name}{${shape(value)}}` : name)).sort().join();
  assert.equal(shape(model.zh), shape(model.en));
});

const stepOf = (id, state = "held", more = {}) => ({ id, name: id, state, skipped: false, waits: 0, ...more });
const edgeOf = (from, to, on = "completed", met = false) => ({ from_id: from, to_id: to, on, met });

test("a step is a layer behind the last one that it waits for", () => {
  const steps = ["a", "b", "c", "d"].map((id) => stepOf(id));
  assert.deepEqual(model.layersOf(steps, [edgeOf("a", "b"), edgeOf("b", "d"), edgeOf("a", "d"), edgeOf("x", "c")]), [["a", "x"], ["b", "c"], ["d"]]);
  assert.deepEqual(model.layersOf([], []), []);
  assert.deepEqual(model.layersOf(steps, []), [["a", "b", "c", "d"]]);
  // No engine stores a cycle; one does no harm here.
  assert.equal(model.layersOf(steps, [edgeOf("a", "b"), edgeOf("b", "a")]).flat().length, 4);
});

test("the longest chain is of steps that are left and may all complete", () => {
  const steps = [stepOf("done", "completed"), stepOf("a", "active"), stepOf("b"), stepOf("c"), stepOf("late"), stepOf("refund"), stepOf("mail")];
  const edges = [edgeOf("done", "a", "completed", true), edgeOf("a", "b"), edgeOf("b", "c", "settled"), edgeOf("a", "late"), edgeOf("c", "refund", "failed"), edgeOf("refund", "mail")];
  assert.deepEqual(model.longestChain(steps, edges), ["a", "b", "c"]);
  assert.deepEqual(model.longestChain([stepOf("done", "completed")], []), []);
});

test("a flow is held by what waits for no other step, and by what ended badly", () => {
  const steps = [stepOf("active", "active"), stepOf("inner", "held", { waits: 1 }), stepOf("outer", "held", { waits: 1 }), stepOf("both", "held", { waits: 2 }), stepOf("named"), stepOf("dead", "dead"), stepOf("over", "cancelled", { skipped: true }), stepOf("done", "completed")];
  const edges = [edgeOf("active", "inner"), edgeOf("job", "outer"), edgeOf("job", "both"), edgeOf("active", "both")];
  assert.deepEqual(model.holdsOf(steps, edges).map(({ id }) => id), ["dead", "active", "outer", "named"]);
});

test("a drawing has no node upon another, and each edge goes to the right", () => {
  const steps = Array.from({ length: 60 }, (_, n) => stepOf(`s${n}`));
  const edges = steps.flatMap((_, n) => [2, 3, 7].filter((by) => n >= by).map((by) => edgeOf(`s${n - by}`, `s${n}`, by === 7 ? "failed" : "completed")));
  const { nodes, lines, width, height } = model.draw(steps, edges);
  assert.equal(lines.length, edges.length);
  const at = new Map(nodes.map((node) => [node.id, node]));
  for (const { edge } of lines) assert.ok(at.get(edge.from_id).x < at.get(edge.to_id).x);
  for (const one of nodes) {
    assert.ok(one.x >= 0 && one.y >= 0 && one.x + model.NODE.width <= width && one.y + model.NODE.height <= height + 1, JSON.stringify(one));
    assert.deepEqual(nodes.filter((other) => other !== one && other.x === one.x && Math.abs(other.y - one.y) < model.NODE.height), []);
  }
  assert.ok(lines.every(({ way }) => !/NaN|undefined|Infinity/.test(way)));
  assert.deepEqual(model.draw([], []).nodes, []);
});

test("limits are checked by their bounds before they are sent", () => {
  const form = { concurrency: "", starts: "", per: "", kind: "window", burst: "" };
  const wrong = (fields) => model.checkLimits({ ...form, ...fields });
  assert.deepEqual(wrong({}), {});
  assert.deepEqual(wrong({ concurrency: "1000000", starts: "1000000", per: "365d" }), {});
  for (const concurrency of ["0", "1000001", "-1", "1.5", "x"]) assert.deepEqual(wrong({ concurrency }), { concurrency: "count" });
  for (const per of ["0ms", "366d", "1us", "5", "5 minutes"]) assert.deepEqual(wrong({ starts: "1", per }), { per: "span" }, per);
  assert.deepEqual(wrong({ starts: "5" }), { per: "noSpan" });
  assert.deepEqual(wrong({ per: "1s" }), { starts: "noStarts" });
  assert.deepEqual(wrong({ starts: "1001", per: "1ms", kind: "smooth" }), { starts: "fast" });
  assert.deepEqual(wrong({ starts: "1001", per: "1ms" }), {});
  assert.deepEqual(wrong({ starts: "10", per: "1s", kind: "smooth", burst: "11" }), { burst: "burst" });
  assert.deepEqual(wrong({ starts: "10", per: "1s", kind: "smooth", burst: "0" }), {});
  assert.equal(model.limitsOf(form), null);
  assert.deepEqual(model.limitsOf({ ...form, concurrency: "5" }), { concurrency: 5 });
  assert.deepEqual(model.limitsOf({ ...form, starts: "10", per: "1h 30m", burst: "3" }), { rate: { kind: "window", starts: 10, per: "1h30m" } });
  assert.deepEqual(model.limitsOf({ ...form, starts: "10", per: "1s", kind: "smooth", burst: "0" }), { rate: { kind: "smooth", starts: 10, per: "1s", burst: 0 } });
  const stand = { concurrency: 5, rate: { kind: "smooth", starts: 10, per: "1s", burst: 0 }, closed: "rate" };
  assert.deepEqual(model.limitsOf(model.formOf(stand)), { concurrency: 5, rate: stand.rate });
});

test("a timeline has attempts, kept steps, sleeps, waits and signals in order", () => {
  const at = (second) => new Date(1_790_000_000_000 + second * 1000).toISOString();
  const job = {
    enqueued_at: at(0), attempt: 3, state: "held", due: at(99), wait_for: ["approved"], started_at: at(20),
    attempts: [
      { attempt: 1, started_at: at(1), ended_at: at(3), outcome: "hold" },
      { attempt: 2, started_at: at(10), ended_at: at(11), outcome: "crashed" },
      { attempt: 3, started_at: at(20), ended_at: at(22), outcome: "hold" },
    ],
    memos: [
      { name: "charge", source: "step", at: at(2) },
      { name: "cool-off", source: "timed_out", at: at(10) },
      { name: "early", source: "signal", at: at(21) },
    ],
  };
  const shown = model.timeline(job).map(({ what, name, attempt }) => [what, name ?? attempt].filter((one) => one !== undefined).join(" "));
  assert.deepEqual(shown, [
    "enqueued", "started 1", "step charge", "ended 1", "timed_out cool-off", "started 2", "ended 2", "started 3", "signal early", "ended 3", "waits approved",
  ]);
  const done = { ...job, state: "completed", wait_for: [], attempt: 4, started_at: at(30), finished_at: at(31) };
  assert.deepEqual(model.timeline(done).slice(-2).map((one) => one.what), ["started", "settled"]);
  assert.equal(model.hasTimeline({ ...job, attempts: [], memos: [] }), false);
  for (const words of [model.en, model.zh]) for (const { what } of model.timeline(job).slice(1)) assert.notEqual(words.timeline.said(what, "x", 1, "y"), what);
});
