// Walks the lists of a plan as far as the reader scrolls; keeps the rows, and counts the examined
// ones.
import { useEffect, useRef, useState } from "preact/hooks";
import { list } from "../api/client";
import { ApiError } from "../api/http";
import { listen } from "../api/live";
import type { Change, Job, Query } from "../api/types";

export interface Walk {
  jobs: Job[];
  /** Jobs whose state has changed since they were read. */
  changed: Map<string, Change>;
  /** Jobs that came or went since the list was read. */
  stale: number;
  examined: number;
  done: boolean;
  busy: boolean;
  stopped: boolean;
  error: ApiError | null;
  /** Whether a job is among `jobs`. */
  has(id: string): boolean;
  more(): void;
  stop(): void;
  again(): void;
}

/** One wish for more goes on until that many jobs were found, or the reader stops it. */
const WISH = 200;

/** How much of each payload a list shows. */
const PREVIEW = 160;

export function useWalk(key: string, plan: Query[] | null, concerns: (change: Change) => boolean): Walk {
  const [, draw] = useState(0);
  const [round, setRound] = useState(0);
  const walker = useRef<Walker | null>(null);
  const wanted = useRef(concerns);
  wanted.current = concerns;

  useEffect(() => {
    if (!plan) return;
    const old = walker.current?.key === key ? walker.current : null;
    const own = new Walker(plan, () => draw((old) => old + 1), old?.jobs ?? []);
    own.key = key;
    walker.current = own;
    own.more();
    const leave = listen({
      changes: (changes) => own.note(changes.filter((change) => wanted.current(change))),
      resync: () => own.noteGap(),
    });
    return () => {
      leave();
      own.stop();
    };
  }, [key, plan === null, round]);

  const now = walker.current;
  const fits = now?.key === key;
  return {
    jobs: fits ? now.jobs : [],
    changed: fits ? now.changed : new Map(),
    stale: fits ? now.others.size + now.gaps : 0,
    examined: fits ? now.examined : 0,
    done: fits && now.done,
    busy: !fits || now.busy,
    stopped: fits && now.stopped,
    error: fits ? now.error : null,
    has: (id) => walker.current?.known.has(id) ?? false,
    more: () => walker.current?.more(),
    stop: () => walker.current?.stop(),
    again: () => setRound((old) => old + 1),
  };
}

class Walker {
  key = "";
  jobs: Job[];
  changed = new Map<string, Change>();
  others = new Set<string>();
  gaps = 0;
  examined = 0;
  done = false;
  busy = false;
  stopped = false;
  error: ApiError | null = null;
  readonly known = new Set<string>();
  private at = 0;
  private cursor: string | undefined;
  private first = true;
  private signal = new AbortController();

  /** `old` is shown until the first answer, so that a list that is read anew does not blink. */
  constructor(private plan: Query[], private drawn: () => void, old: Job[]) {
    this.jobs = old;
    this.done = !plan.length;
    if (this.done) this.jobs = [];
  }

  async more() {
    if (this.busy || this.done || this.error) return;
    this.busy = true;
    this.stopped = false;
    if (this.signal.signal.aborted) this.signal = new AbortController();
    const { signal } = this.signal;
    const goal = (this.first ? 0 : this.jobs.length) + WISH;
    this.drawn();
    try {
      do await this.step(signal);
      while (!this.done && this.jobs.length < goal && !signal.aborted);
    } catch (error) {
      if (!signal.aborted) this.error = error instanceof ApiError ? error : new ApiError(0, "page", String(error));
    }
    this.busy = false;
    this.drawn();
  }

  private async step(signal: AbortSignal) {
    const query = this.plan[this.at];
    if (!query) return void (this.done = true);
    const answer = await list(query, { cursor: this.cursor, preview: PREVIEW }, signal);
    if (this.first) {
      this.jobs = [];
      this.first = false;
    }
    const fresh = answer.jobs.filter((job) => !this.known.has(job.id));
    for (const job of fresh) this.known.add(job.id);
    // One array that grows: copying it for each page of 100 k jobs would cost more than drawing.
    this.jobs.push(...fresh);
    this.examined += answer.examined;
    this.cursor = answer.cursor;
    if (!answer.cursor) this.at += 1;
    this.done = this.at >= this.plan.length;
    this.drawn();
  }

  stop() {
    this.stopped = this.busy;
    this.signal.abort();
    this.drawn();
  }

  note(changes: Change[]) {
    if (!changes.length) return;
    for (const change of changes) {
      if (this.known.has(change.id)) this.changed.set(change.id, change);
      else this.others.add(change.id);
    }
    this.drawn();
  }

  noteGap() {
    if (this.first) return;
    this.gaps += 1;
    this.drawn();
  }
}
