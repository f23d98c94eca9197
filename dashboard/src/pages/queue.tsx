// The page of one queue.

import { useState } from "preact/hooks";
import { deleteQueue, purge, purgeCount, setPaused, settings, stats } from "../api/client";
import { type QueueNow, STATES, type State } from "../api/types";
import { known, may } from "../app/access";
import { useRead } from "../app/query";
import { go, href, toJobs } from "../app/route";
import { useStore } from "../app/store";
import { problemsOf, recent, sortProblems } from "../model/problems";
import { expected, isState, plan } from "../model/search";
import { span } from "../model/time";
import { Charts, type Range } from "../parts/charts";
import { Dialog, notify } from "../parts/dialog";
import { JobList } from "../parts/joblist";
import { visible } from "../parts/payload";
import { Problems } from "../parts/problems";
import { DeadGroups } from "../parts/deadgroups";
import { Ends } from "../parts/ends";
import { Heading } from "../parts/heading";
import { Kinds } from "../parts/kinds";
import { LimitsEdit, LimitsNow } from "../parts/limits";
import { LockPanel, lockOf } from "../parts/lockpanel";
import { Settings } from "../parts/settings";
import { Shares } from "../parts/shares";
import { Failure, count, inView } from "../parts/small";
import { WorkerTable } from "../parts/workertable";
import { useWords } from "../words";

/** What a tab of the page shows: the jobs of a state, all by kind, or those that ended last. */
export type View = State | "kinds" | "ends";
export const isView = (text: string): text is View => isState(text) || text === "kinds" || text === "ends";

export function QueuePage({ name, view }: { name: string; view: View | undefined }) {
  const words = useWords();
  const access = useStore(known);
  const admin = may(access, "admin");
  const read = useRead(`queue ${name}`, (stop) => stats({ queues: [name], history: true, due: true }, stop), { every: 10_000, on: (change) => change.queue === name });
  const stored = useRead(`settings ${name}`, (stop) => settings(name, stop));
  const limit = stored.data;
  const [setting, setSetting] = useState(false);
  const [limiting, setLimiting] = useState(false);
  const [purging, setPurging] = useState(false);
  const [deleting, setDeleting] = useState(false);
  const [range, setRange] = useState<Range>("hour");
  const queue = read.data?.queues[0];
  if (!read.data) return read.error ? <Failure error={read.error} again={read.again} /> : <p class="empty">{words.list.loading}</p>;
  if (!queue) return <><header class="title"><Heading name={name}>{visible(name)}</Heading></header><p class="empty">{words.queue.missing}</p></>;
  const { workers, now } = read.data;
  const lock = lockOf(name);
  const mine = workers.filter((worker) => worker.queues.includes(name));
  const problems = sortProblems(problemsOf(queue, workers, recent(queue.history, Date.parse(now)), words)).map(({ queue: _, ...problem }) => problem);
  const chosen = view ?? first(queue);
  const state = isState(chosen) ? chosen : null;
  const query = state && { queue: name, state };
  const tab = (one: View) => ({ "aria-current": one === chosen ? ("true" as const) : undefined, href: href(["queues", name, one]), onClick: (event: Event) => (event.preventDefault(), go(href(["queues", name, one]), true)) });
  const pause = async (paused: boolean) => {
    try {
      await setPaused(name, paused);
      const undo = paused ? words.queue.resume : words.queue.pause;
      notify({ text: `${name}: ${paused ? words.queue.pause : words.queue.resume}`, action: { text: `${words.bulk.undo} (${undo})`, run: async () => (await setPaused(name, !paused), read.again(), undo) } });
      read.again();
    } catch (error) {
      notify({ text: (error as Error).message, bad: true });
    }
  };
  return (
    <>
      <header class="title">
        <Heading name={name} />
        {queue.paused ? <span class="badge">{words.queues.paused}</span> : null}
        {queue.limits ? <LimitsNow limits={queue.limits} active={queue.active} /> : null}
        <span class="dim">{queue.oldest_due_ms === undefined ? words.totals.nothingDue : `${words.queues.oldest} ${span(queue.oldest_due_ms)}`} · {limit?.max_pending === undefined ? words.queue.noLimit : words.queue.maxPending(limit.max_pending)}</span>
        <span class="actions">
          {may(access, "enqueue") ? <a class="button" href={href(["enqueue"], { queue: name })}>{words.nav.enqueue}</a> : null}
          {admin ? <button data-action="pause" class={queue.paused ? "main" : ""} onClick={() => pause(!queue.paused)}>{queue.paused ? words.queue.resume : words.queue.pause}</button> : null}
          {admin ? <button data-action="settings" onClick={() => setSetting(true)}>{words.settings.open}</button> : null}
          {admin ? <button data-action="limits" onClick={() => setLimiting(true)}>{words.limits.open}</button> : null}
          {admin ? <button data-action="purge" class="danger" onClick={() => setPurging(true)}>{words.queue.purge}</button> : null}
          {admin ? <button data-action="delete-queue" class="danger" onClick={() => setDeleting(true)}>{words.deleteQueue.open}</button> : null}
        </span>
      </header>
      {problems.length ? <Problems problems={problems} calm="" /> : null}
      {queue.paused && !problems.length ? <div class="note warn">{words.queue.pausedNote}</div> : null}
      <Charts histories={[queue.history]} due={[queue.due]} now={Date.parse(now)} range={range} setRange={setRange} queue={name} />
      {lock === null ? null : <LockPanel name={lock} />}
      {access?.capabilities?.includes("shares") ? <Shares queue={name} /> : null}
      {mine.length ? <WorkerTable workers={mine} /> : null}
      <nav class="states-tabs" aria-label={words.list.state} ref={inView}>
        {STATES.map((one) => (
          <a key={one} class={`s-${one} ${queue[one] ? "" : "zero"}`} {...tab(one)}>
            {words.state[one]} <b>{count(queue[one])}</b>
          </a>
        ))}
        <a data-view="ends" {...tab("ends")}>{words.ends.title}</a>
        <a data-view="kinds" {...tab("kinds")}>{words.kinds.title}</a>
        <a class="side" href={toJobs({ queue: name })}>{words.queue.seeAll}</a>
      </nav>
      {chosen === "kinds" ? <Kinds queue={name} /> : null}
      {chosen === "ends" ? <Ends queue={name} /> : null}
      {chosen === "dead" ? <DeadGroups queue={name} /> : null}
      {query ? <JobList query={query} plan={plan(query, [queue])} total={expected(query, [queue])} withQueue={false} /> : null}
      {setting ? <Settings queue={name} close={() => (setSetting(false), stored.again())} /> : null}
      {limiting ? <LimitsEdit queue={name} close={() => (setLimiting(false), read.again())} /> : null}
      {deleting ? <Delete queue={queue} close={() => setDeleting(false)} /> : null}
      {purging ? <Purge queue={name} close={() => (setPurging(false), read.again())} /> : null}
    </>
  );
}

/**
 * The view that says most: what is wrong or waits before what is done; without a job, which jobs
 * there were.
 */
function first(queue: QueueNow): View {
  const order: State[] = ["ready", "active", "dead", "scheduled", "held", "cancelled", "completed"];
  return order.find((state) => queue[state] > 0) ?? "ends";
}

/** A queue is deleted once it has no job: its name, its settings, its pause and its past go. */
function Delete({ queue, close }: { queue: QueueNow; close(): void }) {
  const words = useWords();
  const say = words.deleteQueue;
  const [error, setError] = useState<string | null>(null);
  const left = STATES.filter((state) => queue[state] > 0);
  const doIt = async () => {
    try {
      await deleteQueue(queue.queue);
      notify({ text: `${queue.queue}: ${say.done}` });
      go("#/");
    } catch (failure) {
      setError((failure as Error).message);
    }
  };
  return (
    <Dialog title={say.title(queue.queue)} close={close}>
      <p>{say.means}</p>
      {left.length ? <p class="warn-text">{say.left} {left.map((state) => `${words.state[state]} ${count(queue[state])}`).join(", ")}</p> : null}
      {error ? <p class="bad-text" role="alert">{error}</p> : null}
      <footer>
        <button onClick={close}>{words.bulk.cancel}</button>
        <button class="danger" disabled={left.length > 0} onClick={doIt}>{say.doIt}</button>
      </footer>
    </Dialog>
  );
}

function Purge({ queue, close }: { queue: string; close(): void }) {
  const words = useWords();
  const dry = useRead(`purge ${queue}`, () => purgeCount(queue));
  const [done, setDone] = useState<number | null>(null);
  const [error, setError] = useState<string | null>(null);
  const doIt = async () => {
    let sum = 0;
    let cursor: string | undefined;
    setDone(0);
    try {
      do {
        const answer = await purge(queue, cursor);
        sum += answer.cancelled;
        cursor = answer.cursor;
        setDone(sum);
      } while (cursor);
      notify({ text: `${words.queue.purgeTitle(queue)}: ${words.bulk.done(sum)}` });
      close();
    } catch (failure) {
      setError((failure as Error).message);
    }
  };
  return (
    <Dialog title={words.queue.purgeTitle(queue)} close={close}>
      <p>{words.queue.purgeText}</p>
      <p><b class="big">{done !== null ? count(done) : dry.data ? count(dry.data.pending) : "…"}</b> {done === null ? words.bulk.would : ""}</p>
      {error ?? dry.error ? <p class="bad-text">{error ?? dry.error?.message}</p> : null}
      <footer>
        <button onClick={close}>{words.bulk.cancel}</button>
        <button class="danger" disabled={!dry.data?.pending || done !== null} onClick={doIt}>{words.queue.purgeDo(dry.data?.pending ?? 0)}</button>
      </footer>
    </Dialog>
  );
}
