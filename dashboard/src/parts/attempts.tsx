// How each attempt of a job ended, the latest first, and what was seen of it since the page was
// opened.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { stats } from "../api/client";
import { listen } from "../api/live";
import { type Change, type JobDetail, type PastAttempt, isSettled } from "../api/types";
import { useRead } from "../app/query";
import { clock, engineNow, relative, span } from "../model/time";
import { useWords } from "../words";
import { visible } from "./payload";
import { Panel, StateTag, When, useTick } from "./small";

export function Attempts({ job }: { job: JobDetail }) {
  useTick();
  const words = useWords();
  const seen = useSeen(job.id);
  const late = job.started_at && job.attempt > 0 ? Date.parse(job.started_at) - Date.parse(job.due) : null;
  return (
    <Panel title={words.job.attempts} class="tries">
      {job.attempt === 0 ? <p class="dim">{words.job.never}</p> : (
        <>
          <p>
            {words.job.attemptOf(job.attempt, job.failures, job.max_attempts)}
            {job.crashes ? <b class="bad-text"> · {words.job.crashes(job.crashes)}</b> : null}
            {job.crashes >= 2 && !isSettled(job.state) ? <b class="bad-text"> · {words.job.suspect}</b> : null}
            {late !== null && late >= 0 && (job.state === "active" || job.state === "completed") ? <> · {words.job.waited(span(late))}</> : null}
            {job.failures > 0 && job.state === "scheduled" ? <> · {words.job.next} <When at={job.due} /></> : null}
          </p>
          <progress class={job.state === "dead" ? "bad" : "full"} max={job.max_attempts} value={job.failures} title={words.job.attemptOf(job.attempt, job.failures, job.max_attempts)} />
          <Table job={job} />
        </>
      )}
      {seen.length ? (
        <>
          <h3>{words.job.seen}</h3>
          <ul class="seen">{seen.map((change, index) => <li key={index}><time>{clock(change.at)}</time> <StateTag state={change.state} /></li>)}</ul>
        </>
      ) : null}
    </Panel>
  );
}

/** An attempt that runs has not ended; one that completed its job stands in the job itself. */
interface Shown extends Omit<PastAttempt, "outcome" | "ended_at"> {
  outcome: PastAttempt["outcome"] | "active" | "completed";
  ended_at?: string;
}

function shown({ attempt, state, started_at, finished_at, worker, attempts = [] }: JobDetail): Shown[] {
  const past: Shown[] = [...attempts].reverse();
  if ((state !== "active" && state !== "completed") || !started_at || past[0]?.attempt === attempt) return past;
  return [{ attempt, outcome: state, started_at, ended_at: finished_at, worker }, ...past];
}

function Table({ job }: { job: JobDetail }) {
  const words = useWords();
  // The names of hosts, of those workers that are still about.
  const read = useRead(`hosts ${job.id}`, (stop) => stats({ queues: [job.queue] }, stop));
  const host = (id: string) => visible(read.data?.workers.find((worker) => worker.id === id)?.host || id.slice(0, 8));
  const rows: ComponentChildren[] = [];
  let later = job.attempt + 1;
  const gap = (from: number) => {
    if (from < later) rows.push(<tr key={`gap ${from}`} class="dim"><td /><td colSpan={4}>{words.job.notKept(from, later - 1)}</td></tr>);
  };
  for (const one of shown(job)) {
    gap(one.attempt + 1);
    later = one.attempt;
    const ended = one.ended_at ? Date.parse(one.ended_at) : engineNow();
    rows.push(
      <tr key={one.attempt} data-outcome={one.outcome}>
        <td class="n">{one.attempt}</td>
        <td><span class={`state s-${COLOUR[one.outcome]}`} title={words.outcomeMeans[one.outcome]}>{words.outcome[one.outcome] ?? visible(one.outcome)}</span></td>
        <td><time dateTime={one.started_at}>{clock(one.started_at)}</time> <span class="dim ago">{relative(one.started_at, words)}</span></td>
        <td class="n">{span(ended - Date.parse(one.started_at))}</td>
        <td class="cut" title={one.worker}>{one.worker ? host(one.worker) : null}</td>
      </tr>,
    );
    const said = one.error ? <Said error={one.error} /> : one.outcome === "crashed" ? <span class="dim">{words.outcomeMeans.crashed}</span> : null;
    if (said) rows.push(<tr key={`said ${one.attempt}`} class="said"><td /><td colSpan={4}>{said}</td></tr>);
  }
  gap(1);
  return (
    <table class="attempts" aria-label={words.job.attempts}>
      <thead><tr><th class="n">#</th><th>{words.job.outcome}</th><th>{words.field.started_at}</th><th class="n">{words.job.ranFor}</th><th>{words.field.worker}</th></tr></thead>
      <tbody>{rows}</tbody>
    </table>
  );
}

const COLOUR: Record<Shown["outcome"], string> = {
  active: "active", completed: "completed", retry: "ready", snooze: "scheduled", cancelled: "cancelled", dead: "dead", released: "held", crashed: "dead", hold: "held",
};

/** Its first line; the rest on demand. */
function Said({ error }: { error: string }) {
  const text = visible(error);
  const first = text.split("\n")[0]!;
  if (first === text && text.length <= 120) return <code>{text}</code>;
  return <details><summary class="cut"><code>{first.slice(0, 200)}</code></summary><pre>{text}</pre></details>;
}

/** The changes of one job since the page was opened. */
function useSeen(id: string): Change[] {
  const [seen, setSeen] = useState<Change[]>([]);
  useEffect(() => {
    setSeen([]);
    return listen({
      changes: (changes) => {
        const own = changes.filter((change) => change.id === id);
        if (own.length) setSeen((old) => [...old, ...own].slice(-20));
      },
      resync: () => {},
    });
  }, [id]);
  return seen;
}
