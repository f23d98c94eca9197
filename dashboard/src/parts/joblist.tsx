// A list of jobs: read as far as the reader scrolls, chosen from, edited, kept fresh.
import { useEffect, useRef, useState } from "preact/hooks";
import { type Change, type Job, type Query, type State, isPending, isSettled } from "../api/types";
import { known, may } from "../app/access";
import { useKeys } from "../app/keys";
import { go, toJob } from "../app/route";
import { useStore } from "../app/store";
import { type Walk, useWalk } from "../app/walk";
import type { Scope } from "../model/bulk";
import { isScan, toFilter } from "../model/search";
import { useWords } from "../words";
import { type ActionName, Bulk } from "./bulk";
import { JobRow } from "./jobrow";
import { Failure, count, useNarrow } from "./small";
import { Virtual } from "./virtual";

interface Props {
  query: Query;
  plan: Query[] | null;
  total: number | null;
  withQueue: boolean;
}

const ROW = 32;
const ROW_NARROW = 80;
/** A list without scrolling or a selection is read anew by itself, at most that often. */
const FRESH_MS = 2_000;
/** Scrolled less than that, the reader is at the top of the list. */
const TOP_PX = 400;

/** What may be done to jobs of a state; without a state, all of it. */
export function actionsFor(state: State | undefined): ActionName[] {
  if (!state) return ["run_now", "redrive", "reschedule", "reprioritise", "cancel", "delete"];
  if (isSettled(state)) return ["redrive", "delete"];
  if (state === "active") return ["cancel"];
  return isPending(state) ? ["run_now", "reschedule", "reprioritise", "cancel"] : [];
}

export function JobList({ query, plan, total, withQueue }: Props) {
  const words = useWords();
  const narrow = useNarrow();
  const admin = may(useStore(known), "admin");
  const key = JSON.stringify(query);
  const concerns = (change: Change) => (!query.queue || change.queue === query.queue) && !query.unique && !query.group && !query.limit_name;
  const walk: Walk = useWalk(key, plan, (change) => concerns(change) && (!query.state || change.state === query.state || walk.has(change.id)));
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [all, setAll] = useState(false);
  const [current, showCurrent] = useState(-1);
  // Two keys may come before the page is drawn again: the second goes by this, not by what is
  // drawn.
  const at = useRef(-1);
  const setCurrent = (index: number) => ((at.current = index), showCurrent(index));
  const [anchor, setAnchor] = useState(0);
  const [doing, setDoing] = useState<{ name: ActionName; scope: Scope } | null>(null);
  const filter = toFilter(query);

  const clear = () => (setSelected(new Set()), setAll(false));
  useEffect(() => (clear(), setCurrent(-1)), [key]);
  const chosen = selected.size ? walk.jobs.filter((job) => selected.has(job.id)) : [];
  const changes = walk.stale + walk.changed.size;
  const resting = !selected.size && !all && !doing && current < 0 && walk.jobs.length <= 400 && !walk.busy;
  useEffect(() => {
    if (!changes || !resting) return;
    const timer = setTimeout(() => scrollY < TOP_PX && !document.hidden && walk.again(), FRESH_MS);
    return () => clearTimeout(timer);
  }, [changes > 0, resting]);

  const select = (index: number, range: boolean) => {
    const [from, to] = range ? [Math.min(anchor, index), Math.max(anchor, index)] : [index, index];
    setAll(false);
    setAnchor(index);
    setSelected((before) => {
      const next = new Set(before);
      const on = !next.has(walk.jobs[index]!.id);
      for (const job of walk.jobs.slice(from, to + 1)) on ? next.add(job.id) : next.delete(job.id);
      return next;
    });
  };
  const move = (by: number) => setCurrent(Math.max(0, Math.min(walk.jobs.length - 1, at.current + by)));
  useKeys({
    j: () => move(1), ArrowDown: () => move(1), k: () => move(-1), ArrowUp: () => move(-1),
    x: () => admin && at.current >= 0 && select(at.current, false),
    X: () => admin && filter && walk.jobs.length && setAll(true),
    Enter: () => walk.jobs[at.current] && go(toJob(walk.jobs[at.current]!.id)),
    r: () => walk.again(),
    Escape: () => (clear(), setCurrent(-1)),
  }, !doing);

  const begin = (name: ActionName) => {
    const scope: Scope = all && filter ? { query, filter } : { jobs: chosen };
    setDoing({ name, scope });
  };
  const states = new Set(chosen.map((job) => walk.changed.get(job.id)?.state ?? job.state));
  const actions = actionsFor(all ? query.state : states.size === 1 ? [...states][0] : query.state);
  const exact = total !== null ? words.list.found(total) : walk.done ? words.list.found(walk.jobs.length) : words.list.foundMore(walk.jobs.length);
  const picked = all || selected.size > 0;
  return (
    <div class="joblist" data-loaded={walk.jobs.length}>
      <div class={`listbar ${picked ? "picked" : ""}`}>
        {admin ? (
          <input
            type="checkbox" aria-label={words.list.selectAll} title={words.list.selectAll} checked={all || (selected.size > 0 && selected.size === walk.jobs.length)}
            onClick={() => (picked ? clear() : setSelected(new Set(walk.jobs.map((job: Job) => job.id))))}
          />
        ) : null}
        {picked ? (
          <>
            <b>{all ? `${words.list.allMatching}${total !== null ? ` (${count(total)})` : ""}` : words.list.selected(selected.size)}</b>
            {!all && filter && (total ?? Infinity) > selected.size ? <button class="plain link" onClick={() => setAll(true)}>{words.list.allMatching}{total !== null ? ` (${count(total)})` : ""}</button> : null}
            {actions.map((name) => <button key={name} class={name === "delete" || name === "cancel" ? "danger" : ""} data-action={name} onClick={() => begin(name)}>{words.actions[name]}</button>)}
            <button class="plain link" onClick={clear}>{words.list.clear}</button>
          </>
        ) : (
          <>
            <span class="count">{walk.busy && !walk.jobs.length ? words.list.loading : exact}</span>
            {isScan(query) || query.text || query.error || query.kind ? <span class="dim">{words.list.examined(walk.examined)}</span> : null}
            {walk.busy && walk.examined > 0 ? <button onClick={walk.stop}>{words.list.stop}</button> : null}
            {walk.stopped && !walk.done && !walk.busy ? <button onClick={walk.more}>{words.list.goOn}</button> : null}
            {changes > 0 && !(resting && scrollY < TOP_PX) ? <button class="fresh" onClick={() => (scrollTo(0, 0), walk.again())}>{words.list.changed(changes)} · {words.list.refresh}</button> : null}
          </>
        )}
      </div>
      {walk.error ? <Failure error={walk.error} again={walk.again} /> : null}
      {walk.done && !walk.jobs.length ? <p class="empty">{words.list.none}</p> : null}
      <div role="table" aria-label={words.nav.jobs} aria-rowcount={total ?? walk.jobs.length}>
        {walk.jobs.length && !narrow ? <Head withQueue={withQueue} /> : null}
        <Virtual
          label={words.nav.jobs} rows={walk.jobs.length} rowHeight={narrow ? ROW_NARROW : ROW} show={current >= 0 ? current : undefined} nearEnd={walk.stopped ? undefined : walk.more}
          row={(index) => {
            const job = walk.jobs[index];
            return job ? (
              <JobRow key={job.id} job={job} change={walk.changed.get(job.id)} selected={all || selected.has(job.id)} current={index === current} withQueue={withQueue} canSelect={admin} select={(range) => select(index, range)} />
            ) : null;
          }}
        />
      </div>
      {walk.jobs.length && !walk.done ? <p class="empty">{walk.busy ? words.list.loading : words.list.more}</p> : null}
      {doing ? <Bulk {...doing} close={() => setDoing(null)} changed={() => (clear(), walk.again())} /> : null}
    </div>
  );
}

function Head({ withQueue }: { withQueue: boolean }) {
  const { list } = useWords();
  return (
    <div role="row" class={`row job head ${withQueue ? "" : "no-queue"}`}>
      <span class="pick" />
      <span role="columnheader">{list.id}</span>
      <span role="columnheader">{list.state}</span>
      {withQueue ? <span role="columnheader">{list.queue}</span> : null}
      <span role="columnheader">{list.kind}</span>
      <span role="columnheader">{list.when}</span>
      <span role="columnheader" class="tries">{list.attempt}</span>
      <span role="columnheader">{list.about}</span>
    </div>
  );
}
