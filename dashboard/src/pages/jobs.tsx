// The page that lists jobs.

import { useLayoutEffect, useState } from "preact/hooks";
import { stats } from "../api/client";
import { STATES } from "../api/types";
import { useRead } from "../app/query";
import { go, toJobs } from "../app/route";
import { SEARCH_FIELDS, type Search, expected, isScan, isState, plan, toQuery } from "../model/search";
import { DeadGroups } from "../parts/deadgroups";
import { JobList } from "../parts/joblist";
import { Heading } from "../parts/heading";
import { Failure, inView, short } from "../parts/small";
import { sumOf } from "../parts/queuetable";
import { useWords } from "../words";

export function Jobs({ params }: { params: URLSearchParams }) {
  const words = useWords();
  const counts = useRead("stats", (stop) => stats({}, stop), { every: 10_000 });
  const search: Search = Object.fromEntries(SEARCH_FIELDS.flatMap((name) => (params.get(name) ? [[name, params.get(name)!]] : [])));
  const query = toQuery(search);
  const queues = counts.data?.queues ?? [];
  const sums = sumOf(search.queue ? queues.filter((queue) => queue.queue === search.queue) : queues);
  const set = (next: Search) => go(toJobs({ ...next }), true);
  const needsQueue = (search.unique || search.group) && !search.queue;
  return (
    <>
      <header class="title"><Heading name={search.state === "dead" ? words.nav.dead : words.nav.jobs} /></header>
      <nav key={counts.data ? "counted" : ""} class="states-tabs" aria-label={words.list.state} ref={inView}>
        <a aria-current={search.state ? undefined : "true"} href={toJobs({ ...search, state: undefined })}>{words.filter.any}</a>
        {STATES.map((state) => (
          <a key={state} class={`s-${state} ${sums[state] ? "" : "zero"}`} aria-current={search.state === state ? "true" : undefined} href={toJobs({ ...search, state })}>
            {words.state[state]} <b>{short(sums[state])}</b>
          </a>
        ))}
      </nav>
      <Filters search={search} set={set} queues={queues.map((queue) => queue.queue)} />
      {search.state === "dead" && !search.error && !search.text && !search.from && !search.before && !search.older && !search.unique && !search.group && !search.limit ? <DeadGroups queue={search.queue} kind={search.kind} /> : null}
      {query && isScan(query) ? <p class="dim scan">{words.list.scan}</p> : null}
      {needsQueue ? <div class="note warn">{words.filter.needsQueue}</div> : null}
      {query ? null : <div class="note warn">{words.filter.badInstant}</div>}
      {counts.error && !counts.data ? <Failure error={counts.error} again={counts.again} /> : null}
      {query && !needsQueue ? <JobList query={query} plan={counts.data ? plan(query, queues) : null} total={counts.data ? expected(query, queues) : null} withQueue={!query.queue} /> : null}
    </>
  );
}

function Filters({ search, set, queues }: { search: Search; set(next: Search): void; queues: string[] }) {
  const words = useWords();
  const [draft, setDraft] = useState<Search>(search);
  const key = JSON.stringify(search);
  useLayoutEffect(() => setDraft(search), [key]);
  const rest = search.unique || search.group || search.limit || search.from || search.before || search.older;
  const [open, setOpen] = useState(Boolean(rest));
  const submit = (event: Event) => {
    event.preventDefault();
    set(Object.fromEntries(Object.entries(draft).filter(([, value]) => value)));
  };
  const field = (name: keyof Search, label: string, hint = "", listed?: string) => (
    <label>
      <span>{label}</span>
      <input type="text" name={name} value={draft[name] ?? ""} placeholder={hint} spellcheck={false} autocomplete="off" list={listed} onInput={(event) => setDraft({ ...draft, [name]: event.currentTarget.value })} />
    </label>
  );
  return (
    <form class="filters" onSubmit={submit} role="search">
      {field("queue", words.filter.queue, words.filter.anyQueue, "all-queues")}
      {field("kind", words.filter.kind, words.filter.anyKind)}
      {field("text", words.filter.text)}
      {search.state === "dead" || search.error ? field("error", words.filter.error) : null}
      {open || rest ? (
        <>
          {field("unique", words.filter.unique)}
          {field("group", words.filter.group)}
          {field("limit", words.filter.limit)}
          {field("from", words.filter.dueFrom, words.filter.spanHint)}
          {field("before", words.filter.dueBefore, words.filter.spanHint)}
          {field("older", words.filter.older, "7d")}
        </>
      ) : null}
      <span class="buttons">
        <button class="main" type="submit">{words.filter.apply}</button>
        {open || rest ? null : <button type="button" onClick={() => setOpen(true)}>{words.filter.more}</button>}
        {Object.keys(search).length ? <button type="button" class="plain link" onClick={() => set(search.state && isState(search.state) ? { state: search.state } : {})}>{words.filter.clear}</button> : null}
      </span>
      <datalist id="all-queues">{queues.slice(0, 1_000).map((queue) => <option key={queue} value={queue} />)}</datalist>
    </form>
  );
}
