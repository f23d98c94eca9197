// The page of one job.

import { useMemo, useState } from "preact/hooks";
import { editTargets, job as getJob, list } from "../api/client";
import { type Job, type JobDetail, isPending, isSettled } from "../api/types";
import { known, may } from "../app/access";
import { useKeys } from "../app/keys";
import { useRead } from "../app/query";
import { href, toFlow, toJob, toJobs, toQueue } from "../app/route";
import { useStore } from "../app/store";
import { prepareUndo } from "../model/bulk";
import { headerPairs, parentOf } from "../model/headers";
import { rawField } from "../model/json";
import { clock } from "../model/time";
import { Attempts } from "../parts/attempts";
import { type ActionName, Bulk, undoAction } from "../parts/bulk";
import { notify } from "../parts/dialog";
import { Explain } from "../parts/explain";
import { actionsFor } from "../parts/joblist";
import { JobLog } from "../parts/joblog";
import { about, keyText } from "../parts/jobrow";
import { Payload, visible } from "../parts/payload";
import { Heading } from "../parts/heading";
import { PayloadEdit } from "../parts/payloadedit";
import { Failure, Panel, StateTag, When, idTail, shortId } from "../parts/small";
import { Timeline } from "../parts/timeline";
import { useWords } from "../words";

export function JobPage({ id }: { id: string }) {
  const words = useWords();
  const access = useStore(known);
  const admin = may(access, "admin");
  const read = useRead(`job ${id}`, (stop) => getJob(id, stop), { every: 5_000, on: (change) => change.id === id });
  const [doing, setDoing] = useState<ActionName | null>(null);
  const [typing, setTyping] = useState(false);
  useKeys({ r: () => read.again(), Escape: () => history.back() }, doing === null && !typing);
  // Forgotten while the page shows it: what was read stays, without buttons.
  const isGone = read.error?.status === 404;
  if (!read.data) {
    const heading = <Heading name={`${words.job.title} ${idTail(id)}`}><code>{visible(id)}</code></Heading>;
    if (isGone) return <><header class="title">{heading}</header><p class="empty">{words.job.missing}</p></>;
    return read.error ? <Failure error={read.error} again={read.again} /> : <p class="empty">{words.list.loading}</p>;
  }
  const { job, source } = read.data;
  if (job.tombstone) return <Tombstone job={job} source={source} />;
  const actions = admin && !isGone ? actionsFor(job.state) : [];
  const act = (name: ActionName) => (name === "run_now" || name === "redrive" ? void atOnce(name) : setDoing(name));
  const atOnce = async (name: "run_now" | "redrive") => {
    try {
      const scope = { jobs: [job] };
      const counted = { examined: 1, changed: 1, verdicts: {}, ids: [job.id], allIds: true, done: true };
      const undo = await prepareUndo(name, scope, counted, new AbortController().signal);
      const verdict = (await editTargets(name, [{ id: job.id }], false)).jobs[0];
      const done = verdict?.verdict === "done";
      const text = `${words.actions[name]}: ${words.verdict[verdict?.verdict ?? ""] ?? verdict?.verdict}`;
      notify({ text, bad: !done, ...(done && undo && { action: undoAction(undo, words, read.again) }) });
      read.again();
    } catch (error) {
      notify({ text: (error as Error).message, bad: true });
    }
  };
  return (
    <>
      <header class="title">
        <Heading name={`${words.job.title} ${idTail(job.id)}`}><code>{job.id}</code></Heading>
        <StateTag state={job.state} />
        {job.cancel_requested ? <span class="badge">{words.job.cancelRequested}</span> : null}
        <span class="dim"><a href={toQueue(job.queue)}>{job.queue}</a> / {job.kind}</span>
        <span class="actions">
          {actions.map((name) => <button key={name} data-action={name} class={name === "cancel" || name === "delete" ? "danger" : name === "redrive" && job.state === "dead" ? "main" : ""} onClick={() => act(name)}>{words.actions[name]}</button>)}
          {admin && !isGone && isPending(job.state) ? <button data-action="payload" onClick={() => setTyping(true)}>{words.payloadEdit.open}</button> : null}
          {may(access, "enqueue") && !isGone ? <a class="button" href={href(["enqueue"], { copy: job.id })}>{words.actions.copy}</a> : null}
        </span>
      </header>
      {isGone ? <div class="note warn" role="alert">{words.job.missing}</div> : read.error ? <Failure error={read.error} again={read.again} /> : null}
      <section class={`why s-${job.state}`}><Explain job={job} reasons={job.explain ?? []} /></section>
      <div class="columns">
        <div>
          {job.last_error !== undefined ? (
            <Panel title={words.job.error} class="error"><pre class={job.state === "dead" ? "bad-text" : ""}>{visible(job.last_error)}</pre></Panel>
          ) : null}
          <Attempts job={job} />
          <Timeline job={job} />
          <JobLog job={job} />
          <Panel title={words.job.payload} hint={job.content_type}>
            <Payload text={rawField(source, "payload")} base64={job.payload_base64} />
          </Panel>
          {job.result !== undefined || job.result_base64 !== undefined ? <Panel title={words.job.result}><Payload text={rawField(source, "result")} base64={job.result_base64} /></Panel> : null}
          {job.progress !== undefined || job.progress_base64 !== undefined ? <Panel title={words.job.progress}><Payload text={rawField(source, "progress")} base64={job.progress_base64} /></Panel> : null}
          <Headers job={job} />
        </div>
        <div>
          <Related job={job} />
          <Fields job={job} />
        </div>
      </div>
      {typing ? <PayloadEdit job={job} text={rawField(source, "payload")} close={() => setTyping(false)} changed={read.again} /> : null}
      {doing ? <Bulk name={doing} scope={{ jobs: [job] }} close={() => setDoing(null)} changed={read.again} /> : null}
    </>
  );
}

function Tombstone({ job, source }: { job: JobDetail; source: string }) {
  const words = useWords();
  return (
    <>
      <header class="title"><Heading name={`${words.job.title} ${idTail(job.id)}`}><code>{job.id}</code></Heading><StateTag state={job.state} /></header>
      <p>{words.job.tombstone} <When at={job.finished_at} /></p>
      {job.result !== undefined || job.result_base64 !== undefined ? <Panel title={words.job.result}><Payload text={rawField(source, "result")} base64={job.result_base64} /></Panel> : null}
    </>
  );
}

/** The jobs that share a key with the job: its follower or holder, and the jobs of its group. */
function Related({ job }: { job: Job }) {
  const words = useWords();
  const unique = keyText(job.unique);
  const group = keyText(job.group);
  const read = useRead(`related ${job.id}`, async (stop) => {
    const [keyed, grouped] = await Promise.all([
      unique ? list({ queue: job.queue, unique }, { limit: 10 }, stop) : null,
      group ? list({ queue: job.queue, group }, { limit: 20 }, stop) : null,
    ]);
    const others = (jobs: Job[] = []) => jobs.filter((other) => other.id !== job.id);
    return { keyed: others(keyed?.jobs), grouped: others(grouped?.jobs) };
  });
  const { keyed = [], grouped = [] } = read.data ?? {};
  const parent = parentOf(job.headers);
  const line = (other: Job, relation: string) => (
    <li key={`${relation}${other.id}`}>
      <a class="id" href={toJob(other.id)}>{shortId(other.id)}</a> <StateTag state={other.state} /> <span class="dim">{relation} · {visible(about(other, words.why).text.slice(0, 80))}</span>
    </li>
  );
  return (
    <Panel title={words.job.related}>
      <ul class="running">
        {keyed.map((other) => line(other, isSettled(job.state) || other.state === "active" ? words.job.holder : words.job.follower))}
        {grouped.map((other) => line(other, words.job.sameGroup))}
        {job.flow ? <li data-flow={job.flow.name}>{words.job.stepOf(visible(job.flow.step))} <a href={toFlow(job.flow.name)}>{visible(job.flow.name)}</a></li> : null}
        {parent ? <Parent key={parent} id={parent} /> : null}
        {read.data && !keyed.length && !grouped.length && !parent && !job.flow ? <li class="dim">{words.job.noneRelated}</li> : null}
        {job.state === "dead" ? <li><a href={toJobs({ queue: job.queue, state: "dead", kind: job.kind })}>{words.job.sameKind}</a></li> : null}
      </ul>
    </Panel>
  );
}

/** The job whose settlement enqueued this one, as the header of this one names it. */
function Parent({ id }: { id: string }) {
  const words = useWords();
  const read = useRead(`parent ${id}`, (stop) => getJob(id, stop));
  const parent = read.data?.job;
  return (
    <li class="parent">
      {words.job.followsFrom} <a class="id" href={toJob(id)} title={id}>{shortId(id)}</a> {parent ? <StateTag state={parent.state} /> : null}{" "}
      <span class="dim">{read.error?.status === 404 ? words.job.parentGone : parent && !parent.tombstone ? `${parent.queue} / ${parent.kind}` : ""}</span>
    </li>
  );
}

function Headers({ job }: { job: Job }) {
  const words = useWords();
  const pairs = headerPairs(job.headers);
  if (!pairs.length) return null;
  return (
    <Panel title={words.job.headers}>
      <dl class="fields">{pairs.map(([name, value], index) => <div key={index}><dt>{visible(name)}</dt><dd><code>{visible(value)}</code></dd></div>)}</dl>
    </Panel>
  );
}

const INSTANTS = ["due", "enqueued_at", "started_at", "finished_at", "expires_at", "lease_until"] as const;
const REST = ["priority", "unique", "group", "wait_for", "attempt", "failures", "crashes", "max_attempts", "max_crashes", "retry", "timeout", "retention", "cancelled", "dead", "stopped", "worker"] as const;

function Fields({ job }: { job: JobDetail }) {
  const words = useWords();
  const rest = useMemo(() => REST.filter((name) => job[name] !== undefined), [job]);
  const value = (name: (typeof REST)[number]) => {
    const given = job[name];
    if (name === "cancelled" || name === "dead" || name === "stopped") return `${given}: ${words.why[String(given)] ?? ""}`;
    if (Array.isArray(given)) return given.join(", ");
    if (typeof given !== "object") return String(given);
    return Object.entries(given).map(([part, text]) => `${part} ${Array.isArray(text) ? text.join(" ") : text}`).join(", ");
  };
  return (
    <Panel title={words.job.fields}>
      <dl class="fields">
        <div><dt>{words.field.id}</dt><dd><code>{job.id}</code></dd></div>
        <div><dt>{words.field.queue}</dt><dd>{job.queue}</dd></div>
        <div><dt>{words.field.kind}</dt><dd>{job.kind}</dd></div>
        {INSTANTS.filter((name) => job[name]).map((name) => <div key={name}><dt>{words.field[name]}</dt><dd><When at={job[name]} /> <span class="dim">{clock(job[name]!)}</span></dd></div>)}
        {rest.map((name) => <div key={name}><dt>{words.field[name] ?? name}</dt><dd>{visible(value(name))}</dd></div>)}
      </dl>
    </Panel>
  );
}
