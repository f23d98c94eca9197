// Every queue as a row; a thousand of them too.
import { useMemo, useState } from "preact/hooks";
import { type QueueNow, STATES, type State } from "../api/types";
import { toJobs, toQueue } from "../app/route";
import type { Problem, Recent } from "../model/problems";
import { micros, span } from "../model/time";
import { useWords } from "../words";
import { Icon } from "./icons";
import { Panel, count, short, useNarrow } from "./small";
import { Virtual } from "./virtual";

const SHOWN: State[] = ["held", "scheduled", "ready", "active", "completed", "cancelled", "dead"];
type Sort = "trouble" | "name" | "oldest" | "rate" | "late" | State;

interface Props {
  queues: QueueNow[];
  problems: Problem[];
  past: Map<string, Recent>;
}

export function QueueTable({ queues, problems, past }: Props) {
  const words = useWords();
  const narrow = useNarrow();
  const [text, setText] = useState("");
  const [sort, setSort] = useState<Sort>("trouble");
  const trouble = useMemo(() => {
    const weights = new Map<string, { level: Problem["level"]; weight: number }>();
    problems.forEach(({ queue, level }, index) => queue && !weights.has(queue) && weights.set(queue, { level, weight: problems.length - index }));
    return weights;
  }, [problems]);
  const shown = useMemo(() => {
    const wanted = text.toLowerCase();
    const found = queues.filter((queue) => queue.queue.toLowerCase().includes(wanted));
    const load = (queue: QueueNow) => queue.ready + queue.active + queue.scheduled + queue.held;
    const by: Partial<Record<Sort, (queue: QueueNow) => number>> = {
      trouble: (queue) => (trouble.get(queue.queue)?.weight ?? 0) * 1e12 + Math.min(load(queue) + queue.dead, 1e11),
      oldest: (queue) => queue.oldest_due_ms ?? -1,
      rate: (queue) => past.get(queue.queue)?.completed ?? -1,
      late: (queue) => past.get(queue.queue)?.lateness99 ?? -1,
    };
    const value = sort === "name" ? null : (by[sort] ?? ((queue: QueueNow) => queue[sort as State]));
    return [...found].sort((a, b) => (value ? value(b) - value(a) : 0) || (a.queue < b.queue ? -1 : 1));
  }, [queues, text, sort, trouble, past]);

  const head = (name: Sort, label: string) => (
    <span role="columnheader" aria-sort={sort === name ? (name === "name" ? "ascending" : "descending") : "none"}>
      <button class="plain" onClick={() => setSort(sort === name ? "trouble" : name)}>
        {label}{sort === name ? <Icon name={name === "name" ? "up" : "down"} /> : null}
      </button>
    </span>
  );
  return (
    <Panel
      class="queues" title={words.queues.title} hint={words.queues.shown(shown.length, queues.length)}
      side={<input type="search" class="small" placeholder={words.queues.filter} aria-label={words.queues.filter} value={text} onInput={(event) => setText(event.currentTarget.value)} />}
    >
      <div role="table" aria-label={words.queues.title} aria-rowcount={shown.length}>
        {narrow ? null : (
          <div role="row" class="row queue-row head">
            {head("name", words.queues.name)}
            {SHOWN.map((state) => head(state, words.state[state]))}
            {head("oldest", words.queues.oldest)}
            {head("late", words.queues.late)}
            {head("rate", words.queues.rate)}
          </div>
        )}
        <Virtual
          label={words.queues.title} rows={shown.length} rowHeight={narrow ? 64 : 30}
          row={(index) => {
            const queue = shown[index];
            return queue ? <QueueRow key={queue.queue} queue={queue} level={trouble.get(queue.queue)?.level} past={past.get(queue.queue)} narrow={narrow} /> : null;
          }}
        />
      </div>
      {shown.length ? null : <p class="empty">{queues.length ? words.queues.none : words.queues.empty}</p>}
    </Panel>
  );
}

function QueueRow({ queue, level, past, narrow }: { queue: QueueNow; level: Problem["level"] | undefined; past: Recent | undefined; narrow: boolean }) {
  const words = useWords();
  const states = narrow ? SHOWN.filter((state) => queue[state] > 0) : SHOWN;
  const rate = past?.completed ? past.completed / 5 : null;
  const oldest = queue.oldest_due_ms;
  return (
    <div role="row" class={`row queue-row ${level ?? ""}`} data-queue={queue.queue}>
      <span class="name">
        <a href={toQueue(queue.queue)} title={queue.queue}>{queue.queue}</a>
        {queue.paused ? <span class="badge">{words.queues.paused}</span> : null}
      </span>
      <span class="states">
        {states.map((state) => (
          <a key={state} class={`n ${queue[state] ? `s-${state}` : "zero"}`} href={toJobs({ queue: queue.queue, state })} title={`${words.state[state]}: ${count(queue[state])}`} aria-label={`${words.state[state]}: ${count(queue[state])}`}>
            {narrow ? <small>{words.state[state]} </small> : null}{short(queue[state])}
          </a>
        ))}
      </span>
      <span class={`n oldest ${level && oldest !== undefined ? `${level}-text` : ""}`}>{oldest === undefined ? (narrow ? "" : "–") : span(oldest)}</span>
      {narrow ? null : <span class="n">{past?.lateness99 != null ? micros(past.lateness99) : "–"}</span>}
      {narrow ? null : <span class="n">{rate === null ? "–" : short(rate < 10 ? Math.round(rate * 10) / 10 : Math.round(rate))}</span>}
    </div>
  );
}

export const sumOf = (queues: QueueNow[]) => Object.fromEntries(STATES.map((state) => [state, queues.reduce((sum, queue) => sum + queue[state], 0)])) as Record<State, number>;
