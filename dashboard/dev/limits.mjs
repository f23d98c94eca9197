// The stand-in's limits of queues and named ones. They hold nothing back: the page shows what a
// test writes.
import { no } from "./flows.mjs";

export class FakeLimits {
  of = new Map();

  /** The answer of a request, or `refused`. */
  route(method, queue, { concurrency, rate, shares } = {}, active) {
    if (method === "DELETE") this.of.delete(queue);
    if (method === "PUT") {
      if (concurrency === 0) return no(422, "invalid_input", "concurrency of 0 starts nothing (concurrency: 0)", "use 1 to 1,000,000, or pause the queue to stop it");
      if (rate?.per === "1d1d") return no(422, "invalid_input", `rate.per is "1d1d": not a span`, "write a number and a unit of d, h, m, s, ms or us");
      const { kind = "window", starts, per, burst } = rate ?? {};
      this.of.set(queue, { ...(concurrency && { concurrency }), ...(rate && { rate: { kind, starts, per, ...(kind === "smooth" && { burst: burst ?? Math.floor(starts / 10) }) } }), ...(shares && { shares }) });
    }
    return { queue, active, ...this.of.get(queue) };
  }
}

/** The largest shares of queues: what a test writes, and pauses. */
export class FakeShares {
  of = new Map();

  list = (queue, top) => ({ queue, shares: (this.of.get(queue) ?? []).slice(0, top) });

  pause(queue, share, paused) {
    const found = this.of.get(queue)?.find((one) => one.share === share);
    if (!found) return no(404, "not_found", "the stand-in has no such share");
    delete found.opens_at;
    if (paused) found.closed = "paused";
    else delete found.closed;
    return { queue, share, paused, changed: true };
  }
}

/** Settings as a request has them, or what refuses them. */
const settings = ({ concurrency, rate, when_full }) => ({ ...(concurrency && { concurrency }), ...(when_full && { when_full }), ...(rate && { rate: { kind: "window", ...rate } }) });

export class FakeNamedLimits {
  of = new Map();

  list = (after, limit) => {
    const found = [...this.of.values()].filter(({ name }) => name > after).sort((a, b) => (a.name < b.name ? -1 : 1));
    const limits = found.slice(0, limit);
    return { limits, ...(found.length > limit && { next: limits.at(-1).name }) };
  };

  /** The answer of a request, or `refused`. */
  route(method, path, body) {
    const [, name, block] = /^([^/]+)(\/block)?$/.exec(path).map((part) => part && decodeURIComponent(part));
    const now = { name, active: 0, waiting: 0, ...this.of.get(name) };
    if (block) {
      const { closed, opens_at, ...open } = now;
      const milliseconds = { s: 1_000, m: 60_000 }[body.span.at(-1)] * Number(body.span.slice(0, -1));
      if (!(milliseconds >= 0)) return no(422, "invalid_input", `span is "${body.span}": not a span`, "write a number and a unit of d, h, m, s, ms or us");
      this.of.set(name, milliseconds ? { ...open, closed: "blocked", opens_at: new Date(Date.now() + milliseconds).toISOString() } : open);
      return { name, changed: true };
    }
    if (method === "DELETE") this.of.delete(name);
    if (method === "PUT") this.of.set(name, { name, active: now.active, waiting: now.waiting, set_by: name, ...settings(body) });
    return { name, active: 0, waiting: 0, ...this.of.get(name) };
  }
}
