// What holds a flow: the steps that wait for no other one, and those that ended badly, each with
// its reason.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { STEPS_MAX, job as getJob, steps as getSteps } from "../api/client";
import type { Edge, Flow, Step, StepList } from "../api/types";
import { useRead } from "../app/query";
import { toJob } from "../app/route";
import { holdsOf, isBad, sortHolds } from "../model/flow";
import { useWords } from "../words";
import { Explain } from "./explain";
import { StepTag, outsideOf } from "./flowparts";
import { visible } from "./payload";
import { Failure, Panel, count, shortId } from "./small";

const SHOWN_MAX = 20;
/** Each of these is asked for its reason. */
const EXPLAINED_MAX = 6;
/** Steps of a large flow that are examined at once. */
const EXAMINED_MAX = 10_000;

/** `kept` are all steps of a flow that is small; of a large one they are searched. */
export function Holds({ flow, kept }: { flow: Flow; kept: { steps: Step[]; edges: Edge[] } | null }) {
  // Of a plan that is not sealed no step is at fault: all of them wait for its seal.
  if (flow.state === "open") return <HoldsPanel flow={flow} holds={[]} edges={[]} />;
  return kept ? <HoldsPanel flow={flow} holds={holdsOf(kept.steps, kept.edges)} edges={kept.edges} /> : <Searched flow={flow} />;
}

/** Goes on until enough were found, and those that ended badly are among them. */
async function search({ name, counts }: Flow, begin: number, stop: AbortSignal): Promise<{ holds: Step[]; end: number; next?: number }> {
  const holds: Step[] = [];
  let next: number | undefined = begin;
  let end = begin;
  const bad = Math.min(SHOWN_MAX, counts.dead + counts.cancelled);
  const isEnough = () => holds.length >= SHOWN_MAX && holds.filter(isBad).length >= bad;
  while (next !== undefined && end - begin < EXAMINED_MAX && !isEnough()) {
    const page: StepList = await getSteps(name, { from: next, limit: STEPS_MAX }, stop);
    holds.push(...holdsOf(page.steps, []));
    end = next + page.steps.length;
    next = page.next;
  }
  return { holds: sortHolds(holds), end, ...(next !== undefined && { next }) };
}

function Searched({ flow }: { flow: Flow }) {
  const { flows: say, list } = useWords();
  const [begin, setBegin] = useState(0);
  const read = useRead(`holds ${flow.name} ${begin}`, (stop) => search(flow, begin, stop), { every: 30_000 });
  if (!read.data) return read.error ? <Failure error={read.error} /> : <Panel title={say.holds}><p class="empty">{list.loading}</p></Panel>;
  const { holds, end, next } = read.data;
  return (
    <HoldsPanel flow={flow} holds={holds} edges={[]}>
      <p class="buttons-row dim">
        {say.examined(begin + 1, end)}
        {begin ? <button onClick={() => setBegin(0)}>{say.fromStart}</button> : null}
        {next !== undefined ? <button onClick={() => setBegin(next)}>{say.further}</button> : null}
      </p>
    </HoldsPanel>
  );
}

function HoldsPanel({ flow, holds, edges, children }: { flow: Flow; holds: Step[]; edges: Edge[]; children?: ComponentChildren }) {
  const { flows: say } = useWords();
  const settled = flow.settled_at !== undefined;
  return (
    <Panel title={settled ? say.failedBy : say.holds} hint={settled ? "" : say.holdsMean} class="holds">
      <ul>
        {holds.slice(0, SHOWN_MAX).map((step, at) => <Hold key={step.id} step={step} outside={outsideOf(edges, step.id)} explained={at < EXPLAINED_MAX} />)}
        {holds.length ? null : <li class="dim">{flow.state === "open" ? say.openNote : settled ? say.nothingFailed : say.nothingHolds}</li>}
      </ul>
      {holds.length > SHOWN_MAX ? <p class="dim">{say.moreHolds(holds.length - SHOWN_MAX)}</p> : null}
      {children}
    </Panel>
  );
}

function Hold({ step, outside, explained }: { step: Step; outside: string[]; explained: boolean }) {
  const { flows: say } = useWords();
  const [first] = outside;
  return (
    <li data-hold={step.name}>
      <p><a href={toJob(step.id)}>{visible(step.name)}</a> <StepTag step={step} /></p>
      {step.waits && first ? <p class="dim">{say.waitsOutside} <a href={toJob(first)}><code>{shortId(first)}</code></a>{outside.length > 1 ? ` +${count(outside.length - 1)}` : ""}</p> : explained ? <Why id={step.id} /> : null}
    </li>
  );
}

function Why({ id }: { id: string }) {
  const read = useRead(`why ${id}`, (stop) => getJob(id, stop), { every: 10_000, on: (change) => change.id === id });
  const job = read.data?.job;
  if (!job || job.tombstone) return null;
  const [line] = (job.last_error ?? "").split("\n");
  return (
    <>
      <Explain job={job} reasons={job.explain ?? []} />
      {line ? <p class={job.state === "dead" ? "bad-text" : "dim"}>{visible(line)}</p> : null}
    </>
  );
}
