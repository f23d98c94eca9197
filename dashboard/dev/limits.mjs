// The stand-in's limits of queues, which hold nothing back: the page shows what a test writes.
import { no } from "./flows.mjs";

export class FakeLimits {
  of = new Map();

  /** The answer of a request, or `refused`. */
  route(method, queue, { concurrency, rate } = {}, active) {
    if (method === "DELETE") this.of.delete(queue);
    if (method === "PUT") {
      if (concurrency === 0) return no(422, "invalid_input", "concurrency of 0 starts nothing (concurrency: 0)", "use 1 to 1,000,000, or pause the queue to stop it");
      if (rate?.per === "1d1d") return no(422, "invalid_input", `rate.per is "1d1d": not a span`, "write a number and a unit of d, h, m, s, ms or us");
      const { kind = "window", starts, per, burst } = rate ?? {};
      this.of.set(queue, { ...(concurrency && { concurrency }), ...(rate && { rate: { kind, starts, per, ...(kind === "smooth" && { burst: burst ?? Math.floor(starts / 10) }) } }) });
    }
    return { queue, active, ...this.of.get(queue) };
  }
}
