// Reading from the gateway inside components: read now, read anew on changes and every so often.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { listen } from "../api/live";
import { ApiError } from "../api/http";
import type { Change } from "../api/types";

export interface Read<T> {
  data: T | null;
  error: ApiError | null;
  /** When the data was read, in milliseconds of this machine. */
  at: number;
  again(): void;
}

interface Options {
  /** Whether a change concerns what is read; without it none does. */
  on?: (change: Change) => boolean;
  /** Reads anew that often at least, in milliseconds. */
  every?: number;
  /** Reads anew on changes at most that often, in milliseconds. */
  atMost?: number;
}

export function useRead<T>(key: string, read: (stop: AbortSignal) => Promise<T>, options: Options = {}): Read<T> {
  const [state, setState] = useState<{ key: string; data: T | null; error: ApiError | null; at: number }>({ key, data: null, error: null, at: 0 });
  const latest = useRef({ read, options });
  latest.current = { read, options };
  const trigger = useRef<() => void>(() => {});

  useEffect(() => {
    const stop = new AbortController();
    let running = false;
    let wanted = false;
    let timer = 0;
    let last = 0;

    const run = async () => {
      window.clearTimeout(timer);
      if (running) return void (wanted = true);
      running = true;
      wanted = false;
      last = Date.now();
      try {
        const data = await latest.current.read(stop.signal);
        if (!stop.signal.aborted) setState({ key, data, error: null, at: Date.now() });
      } catch (error) {
        if (stop.signal.aborted) return;
        const problem = error instanceof ApiError ? error : new ApiError(0, "page", String(error));
        setState((old) => ({ key, data: old.key === key ? old.data : null, error: problem, at: old.at }));
      } finally {
        running = false;
        if (!stop.signal.aborted) plan(wanted ? gap() : (latest.current.options.every ?? 0));
      }
    };
    const gap = () => Math.max(0, last + (latest.current.options.atMost ?? 1_000) - Date.now());
    const plan = (wait: number) => {
      window.clearTimeout(timer);
      // A hidden page reads nothing.
      if (wait > 0 || wanted) timer = window.setTimeout(() => (document.hidden ? plan(1_000) : run()), wait);
    };
    const soon = () => {
      if (wanted) return;
      wanted = true;
      if (!running) plan(gap());
    };
    trigger.current = run;
    const leave = listen({
      changes: (changes) => {
        const { on } = latest.current.options;
        if (on && changes.some(on)) soon();
      },
      resync: soon,
    });
    void run();
    return () => {
      stop.abort();
      window.clearTimeout(timer);
      leave();
    };
  }, [key]);

  const again = useCallback(() => trigger.current(), []);
  const fits = state.key === key;
  return { data: fits ? state.data : null, error: fits ? state.error : null, at: state.at, again };
}
