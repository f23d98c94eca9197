// The first page: problems, lateness, throughput, queues.

import { useMemo, useRef, useState } from "preact/hooks";
import { stats } from "../api/client";
import { downSince } from "../api/http";
import { STATES, type Stats } from "../api/types";
import { known } from "../app/access";
import { useRead } from "../app/query";
import { toJobs } from "../app/route";
import { useStore } from "../app/store";
import { type Problem, loadOf, problemsOf, problemsOfEngine, recentOf, sortProblems } from "../model/problems";
import { span } from "../model/time";
import { Heading } from "../parts/heading";
import { Charts, RANGES, type Range } from "../parts/charts";
import { Problems } from "../parts/problems";
import { QueueTable, sumOf } from "../parts/queuetable";
import { Failure, count, short, useTick } from "../parts/small";
import { WorkerTable } from "../parts/workertable";
import { useWords } from "../words";

const COUNTS_MS = 5_000;
const PAST_MS = 15_000;

export function Overview() {
  const words = useWords();
  useTick(5_000);
  const counts = useRead("stats", (stop) => stats({}, stop), { every: COUNTS_MS, on: () => true });
  const [range, setRange] = useState<Range>("hour");
  const { minutes } = RANGES[range];
  const read = useRead(`past ${minutes}`, (stop) => stats({ total: true, minutes: Math.min(1_440, minutes * 2) }, stop), { every: PAST_MS });
  // Twice as far back as is shown: whether there is anything before divides a young server from a
  // quiet hour. Until a longer past has come, what was there stays.
  const last = useRef<Stats | null>(null);
  const past = (last.current = read.data ?? last.current);
  const info = useStore(known);
  const down = useStore(downSince);
  const now = counts.data;
  const engineNow = now ? Date.parse(now.now) : Date.now();

  const recents = useMemo(
    () => new Map((past?.queues ?? []).flatMap((queue) => (queue.recent ? [[queue.queue, recentOf(queue.recent, Date.parse(past!.now))] as const] : []))),
    [past],
  );
  const problems = useMemo(() => {
    const found: Problem[] = (now?.queues ?? []).flatMap((queue) => problemsOf(queue, now!.workers, recents.get(queue.queue) ?? null, words));
    found.push(...problemsOfEngine(info, found, words));
    return sortProblems(found);
  }, [now, recents, info, words]);
  const histories = useMemo(() => [past?.total?.history], [past]);
  const due = useMemo(() => [past?.total?.due], [past]);

  if (!now) return counts.error ? <Failure error={counts.error} again={counts.again} /> : <p class="empty">{words.list.loading}</p>;
  const shown: Problem[] = down === null ? problems : [{ level: "bad", text: words.problems.unreachable(span(Date.now() - down)), weight: 1e15 }, ...problems];
  return (
    <>
      <Heading name={words.nav.overview} hidden />
      <Problems problems={shown} calm={now.queues.length ? words.problems.noneMore(now.queues.length, now.workers.length) : words.problems.noJobs} />
      <Totals now={now} past={[...recents.values()].reduce((sum, one) => sum + one.completed, 0) / 5} />
      <Charts histories={histories} due={due} now={engineNow} range={range} setRange={setRange} />
      <QueueTable queues={now.queues} problems={problems} past={recents} />
      <WorkerTable workers={now.workers} />
    </>
  );
}

function Totals({ now, past }: { now: Stats; past: number }) {
  const words = useWords();
  const sums = sumOf(now.queues);
  const oldest = Math.max(-1, ...now.queues.filter((queue) => !queue.paused).map((queue) => queue.oldest_due_ms ?? -1));
  const { slots, busy } = loadOf(now.workers);
  return (
    <section class="totals">
      {STATES.map((state) => (
        <a key={state} class={`total s-${state} ${sums[state] ? "" : "zero"}`} href={toJobs({ state })} title={`${words.stateMeans[state]}: ${count(sums[state])}`} data-state={state}>
          <b>{short(sums[state])}</b>
          <span>{words.state[state]}</span>
        </a>
      ))}
      <span class={`total ${oldest > 5_000 ? "bad-text" : ""}`}>
        <b>{oldest < 0 ? "–" : span(oldest)}</b>
        <span>{oldest < 0 ? words.totals.nothingDue : words.totals.oldest}</span>
      </span>
      <span class="total">
        <b>{short(Math.round(past))}</b>
        <span>{words.totals.perMinute}</span>
      </span>
      <a class={`total ${now.workers.length ? "" : "warn-text"}`} href="#/workers" title={words.totals.slots(busy, slots)}>
        <b>{count(now.workers.length)}</b>
        <span>{words.totals.workers}</span>
      </a>
      {now.exact ? null : <span class="dim">{words.totals.inexact}</span>}
    </section>
  );
}
