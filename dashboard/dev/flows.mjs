// The stand-in's flows: what section Flows of docs/http-api.md describes, in memory.
import { HOSTILE, makeId, random } from "./seed.mjs";

const settled = new Set(["completed", "cancelled", "dead"]);
export const no = (state, code, message, hint) => ({ refused: [state, code, message, hint] });

export class FakeFlows {
  constructor(now) {
    this.draw = random(11);
    this.now = now;
    this.flows = new Map();
    this.jobs = new Map();
    seed(this);
  }

  /** Steps are `[name, state, after, more]`; of `after` a name, `name:failed`, or `outside`. */
  add(name, steps, { on_failure = "cancel_dependants", callbacks = ["on_done", "on_failed", "on_settled"], state, minutes = 12, sealed = true } = {}) {
    const at = (back) => new Date(this.now() - back * 60_000).toISOString();
    const flow = { name, on_failure, created_at: at(minutes), ...(sealed && { sealed_at: at(minutes) }), steps: [], edges: [], wanted: state };
    const ids = new Map();
    for (const [step, stands, after = [], more = {}] of steps) {
      const id = makeId(this.draw);
      ids.set(step, id);
      const { result, error, ...fields } = more;
      const skipped = stands === "skipped";
      const now = skipped ? "cancelled" : stands;
      flow.steps.push({ name: step, id, state: now, skipped, ...(result !== undefined && { result }) });
      this.jobs.set(id, {
        id, queue: "orders", kind: `orders.${step.slice(0, 40)}`, content_type: "application/json", priority: 5, max_attempts: 20, retention: "1d", retry: { policy: "fixed", base: "7s" }, attempt: now === "held" ? 0 : 1,
        failures: now === "dead" ? 1 : 0, crashes: 0, payload: "{}", due: at(minutes), enqueued_at: at(minutes), state: now, flow: { name, step }, ...(skipped && { cancelled: "upstream" }), ...(now === "cancelled" && !skipped && { cancelled: "requested" }),
        ...(now === "dead" && { dead: "exhausted", last_error: error ?? "label printer: out of paper" }), ...(now === "active" && { worker: "w0", started_at: at(0.2), lease_until: at(-10) }), ...(settled.has(now) && { finished_at: at(1) }), ...fields,
      });
      for (const wait of after) {
        const [from, on = "completed"] = wait.split(":");
        flow.edges.push(from === "outside" ? { from_id: makeId(this.draw), to: step, to_id: id, on } : { from, from_id: ids.get(from), to: step, to_id: id, on });
      }
    }
    flow.callbacks = callbacks.map((on) => ({ on, id: makeId(this.draw) }));
    for (const { on, id } of flow.callbacks) this.jobs.set(id, { ...this.jobs.values().next().value, id, kind: `reports.${on}`, state: "held", flow: { name, step: on } });
    this.flows.set(name, flow);
  }

  #met = (flow, edge) => {
    const from = flow.steps.find(({ id }) => id === edge.from_id)?.state;
    return from !== undefined && settled.has(from) && (edge.on === "settled" || (edge.on === "failed") === (from !== "completed"));
  };

  counts(flow) {
    const many = (wanted) => flow.steps.filter(wanted).length;
    return { steps: flow.steps.length, open: many(({ state }) => !settled.has(state)), completed: many(({ state }) => state === "completed"), skipped: many(({ skipped }) => skipped), cancelled: many(({ state, skipped }) => state === "cancelled" && !skipped), dead: many(({ state }) => state === "dead") };
  }

  answer(flow) {
    const counts = this.counts(flow);
    const ends = !flow.sealed_at ? "open" : counts.open ? "running" : flow.wanted === "cancelled" ? "cancelled" : counts.dead || counts.cancelled ? "failed" : "done";
    const at = new Date(Math.floor(this.now() / 60_000) * 60_000).toISOString();
    const fired = { on_done: ends === "done", on_failed: ends === "failed" || ends === "cancelled", on_settled: ends !== "running" && ends !== "open" };
    return {
      name: flow.name, state: ends, counts, on_failure: flow.on_failure, created_at: flow.created_at, ...(flow.sealed_at && { sealed_at: flow.sealed_at }), ...(fired.on_settled && { settled_at: at, until: new Date(this.now() + 864e5).toISOString() }),
      ...(ends === "open" && { until: new Date(this.now() + 3_600_000).toISOString() }), callbacks: flow.callbacks.map(({ on, id }) => ({ on, id, fired: fired[on] })),
    };
  }

  /** The answer of a request, or `refused`. */
  route(method, path, params, sent) {
    if (!path) {
      const limit = Number(params.get("limit") ?? 100);
      const after = params.get("after") ?? "";
      const names = [...this.flows.keys()].sort().filter((name) => name > after);
      const page = names.slice(0, limit);
      return { flows: page.map((name) => this.answer(this.flows.get(name))), ...(names.length > limit && { next: page.at(-1) }) };
    }
    const [name, act] = path.split("/").map(decodeURIComponent);
    const flow = this.flows.get(name);
    if (!flow) return no(404, "not_found", "there is no such flow", "GET /v1/flows lists them");
    switch (act) {
      case undefined: return this.answer(flow);
      case "steps": {
        const from = Number(params.get("from") ?? 0);
        const limit = Number(params.get("limit") ?? 100);
        const waits = new Map();
        for (const edge of flow.edges) if (!this.#met(flow, edge)) waits.set(edge.to_id, (waits.get(edge.to_id) ?? 0) + 1);
        const page = flow.steps.slice(from, from + limit).map((step) => ({ ...step, waits: settled.has(step.state) ? 0 : (waits.get(step.id) ?? 0) }));
        const state = params.get("state");
        return { steps: page.filter((step) => !state || step.state === state), ...(from + limit < flow.steps.length && { next: from + limit }) };
      }
      case "graph":
        if (flow.steps.length > 1_000) return no(422, "invalid_input", `the flow has ${flow.steps.length} steps, too many for a graph`);
        return { edges: flow.edges.map((edge) => ({ ...edge, met: this.#met(flow, edge) })) };
      case "recount": {
        const counted = this.counts(flow);
        return { agrees: !flow.drift, counted, kept: flow.drift ? { ...counted, open: counted.open + flow.drift } : counted, differ: flow.drift ? [flow.steps[0].name] : [], moved: false };
      }
      case "cancel":
        flow.wanted = "cancelled";
        return this.#change(flow, ({ state }) => !settled.has(state), { state: "cancelled" }, () => this.answer(flow));
      case "retry": {
        const { from } = sent;
        if (from !== undefined && !flow.steps.some((step) => step.name === from)) return no(404, "not_found", `flow has no such step (step: ${from})`);
        flow.wanted = undefined;
        const again = from === undefined ? ({ state, skipped }) => (state === "dead" || state === "cancelled") && !skipped : (step) => step.name === from;
        const retried = flow.steps.filter(again).length;
        this.#change(flow, again, { state: "ready" });
        return this.#change(flow, ({ skipped }) => skipped, { state: "held", skipped: false }, () => ({ retried, gone: 0, gone_steps: [], unique_held: 0, unique_held_steps: [], ...flow.leftOut }));
      }
      default: return no(404, "not_found", "no such route");
    }
  }

  #change(flow, wanted, fields, answer) {
    for (const step of flow.steps.filter(wanted)) {
      Object.assign(step, fields);
      Object.assign(this.jobs.get(step.id), { state: step.state });
    }
    return answer?.();
  }
}

/** Flows of each state, a wide, a deep, a large one, and names that must be shown as text. */
function seed(flows) {
  flows.add("order-7", [
    ["charge", "completed", [], { result: { receipt: 9_007_199_254 } }], ["reserve", "completed"], ["pack", "active", ["charge", "reserve"]], ["label", "held", ["charge"], { wait_for: ["approved:7"] }], ["customs", "held", ["label", "outside"]],
    ["ship", "held", ["pack", "label", "customs"]], ["refund", "held", ["pack:failed"]], ["mail", "held", ["ship"]], ["audit", "held", ["charge", "ship:settled", "refund:settled"]],
  ]);
  flows.add("order-8", [
    ["charge", "completed"], ["pack", "dead", ["charge"], { error: "shelf 12 is empty\n  caused by: stock says 3" }], ["label", "completed", ["charge"], { result: { code: "ABC" } }], ["ship", "skipped", ["pack", "label"]], ["refund", "completed", ["pack:failed"]],
  ], { minutes: 90 });
  flows.add("order-9", [["charge", "completed"], ["ship", "cancelled", ["charge"]]], { minutes: 300, state: "cancelled", on_failure: "cancel_rest", callbacks: ["on_settled"] });
  flows.add("monthly-close", [["collect", "completed", [], { result: { rows: 48_211 } }], ["sum", "completed", ["collect"]], ["send", "completed", ["sum"]]], { minutes: 2_000, on_failure: "continue" });
  flows.add("import-2026-11", Array.from({ length: 6 }, (_, n) => [`part-${n}`, "held"]), { sealed: false, minutes: 3, callbacks: ["on_done"] });
  const batch = Array.from({ length: 10_000 }, (_, n) => [`invoice-${n}`, n < 6_200 ? "completed" : n === 8_400 ? "dead" : n < 6_232 ? "active" : "ready"]);
  flows.add("nightly-invoices", batch, { minutes: 8, callbacks: ["on_settled"], on_failure: "continue" });
  const stages = Array.from({ length: 12 }, (_, stage) => Array.from({ length: 24 }, (_, n) => [`stage-${stage}-${n}`, stage < 4 ? "completed" : stage === 4 ? (n < 9 ? "completed" : "active") : "held", stage ? [`stage-${stage - 1}-${n}`, `stage-${stage - 1}-${(n + 1) % 24}`] : []]));
  flows.add("video-pipeline", stages.flat(), { minutes: 40, callbacks: [] });
  const lanes = ["cut", "sound", "titles", "colour", "mix", "check", "publish"];
  const films = Array.from({ length: 8 }, (_, film) => lanes.map((lane, n) => [`${lane}-${film}`, n + (film % 3) < 4 ? "completed" : n + (film % 3) === 4 ? "active" : "held", n ? [`${lanes[n - 1]}-${film}`, ...(lane === "mix" ? [`sound-${film}`] : []), ...(lane === "publish" ? [`titles-${film}`] : [])] : []]));
  flows.add("films", [...films.flat(), ["announce", "held", films.map((_, film) => `publish-${film}`)]], { minutes: 25 });
  flows.add(`${HOSTILE[1]} \u202Egnp.exe`, HOSTILE.map((text, n) => [text, n % 2 ? "dead" : n ? "held" : "completed", n ? [HOSTILE[0]] : []]), { minutes: 5, callbacks: ["on_done"] });
}
