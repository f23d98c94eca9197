// What a job brought about when an attempt of it was settled, and what brought it about itself.
import { useState } from "preact/hooks";
import { job as getJob } from "../api/client";
import type { Job, JobDetail } from "../api/types";
import { useRead } from "../app/query";
import { toJob, toQueue } from "../app/route";
import { type Walk, useWalk } from "../app/walk";
import { parentOf } from "../model/headers";
import { useWords } from "../words";
import { Failure, Panel, StateTag, When, shortId } from "./small";

/** No index leads from a job to its follow-ups: so many jobs are looked at when the page is opened, and each time somebody asks for more. */
const UNASKED_MAX = 1_000;
const ASKED_MAX = 20_000;

export function FollowUps({ job }: { job: JobDetail }) {
  const words = useWords();
  const parent = parentOf(job.headers);
  // Follow-ups come with the end of an attempt.
  const ended = job.mark ? 1 : job.attempt - (job.state === "active" ? 1 : 0);
  if (!parent && ended < 1) return null;
  return (
    <Panel title={words.job.followUps} class="follow-ups">
      {parent ? <Parent key={parent} id={parent} /> : null}
      {ended > 0 ? <Children key={job.id} id={job.id} ended={ended} /> : null}
    </Panel>
  );
}

function Parent({ id }: { id: string }) {
  const words = useWords();
  const read = useRead(`parent ${id}`, (stop) => getJob(id, stop));
  const parent = read.data?.job;
  return (
    <p class="parent">
      {words.job.followsFrom} <a class="id" href={toJob(id)} title={id}>{shortId(id)}</a> {parent ? <StateTag state={parent.state} /> : null}{" "}
      <span class="dim">{read.error?.status === 404 ? words.job.parentGone : parent && !parent.mark ? `${parent.queue} / ${parent.kind}` : ""}</span>
    </p>
  );
}

function Children({ id, ended }: { id: string; ended: number }) {
  const words = useWords();
  // Looked for once: another attempt that ended meanwhile may have brought about more, for who asks.
  const [lookedAt, setLookedAt] = useState(ended);
  const walk: Walk = useWalk(`follow-ups ${id}`, [{ parent: id }], (change) => walk.has(change.id), ASKED_MAX, UNASKED_MAX);
  const jobs = [...walk.jobs].sort((a, b) => (a.enqueued_at < b.enqueued_at ? -1 : 1));
  return (
    <>
      <ul class="running" data-found={walk.done ? jobs.length : undefined}>
        {jobs.map((job) => <Child key={job.id} job={job} state={walk.changed.get(job.id)?.state ?? job.state} />)}
        {walk.done && !jobs.length ? <li class="dim">{words.job.noFollowUps}</li> : null}
      </ul>
      {walk.error ? <Failure error={walk.error} again={walk.again} /> : null}
      {ended > lookedAt ? <p class="dim">{words.job.endedSince} <button onClick={() => (setLookedAt(ended), walk.again())}>{words.job.lookAgain}</button></p> : null}
      {walk.done || walk.error ? null : (
        <p class="dim">
          {walk.busy || jobs.length ? words.list.examined(walk.examined) : words.job.noneAmong(walk.examined)} {walk.busy ? <button onClick={walk.stop}>{words.list.stop}</button> : <button onClick={walk.more}>{words.list.goOn}</button>}
        </p>
      )}
    </>
  );
}

function Child({ job, state }: { job: Job; state: Job["state"] }) {
  return (
    <li data-id={job.id}>
      <a class="id" href={toJob(job.id)} title={job.id}>{shortId(job.id)}</a> <StateTag state={state} /> <a href={toQueue(job.queue)}>{job.queue}</a> <span>{job.kind}</span> <span class="dim"><When at={job.finished_at ?? job.due} /></span>
    </li>
  );
}
