// A value that components watch: the whole of our state management.
import { useEffect, useState } from "preact/hooks";

export interface Store<T> {
  get(): T;
  set(next: T): void;
  watch(seen: (value: T) => void): () => void;
}

export function store<T>(first: T): Store<T> {
  let value = first;
  const watchers = new Set<(value: T) => void>();
  return {
    get: () => value,
    set(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const watcher of [...watchers]) watcher(value);
    },
    watch(seen) {
      watchers.add(seen);
      return () => void watchers.delete(seen);
    },
  };
}

export function useStore<T>(of: Store<T>): T {
  const [value, set] = useState(of.get());
  useEffect(() => {
    set(() => of.get());
    return of.watch((next) => set(() => next));
  }, [of]);
  return value;
}
