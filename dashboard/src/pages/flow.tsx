// One flow: its graph, what holds it, its callbacks and steps, and what may be done with it.
import { useRef, useState } from "preact/hooks";
import { edges as getEdges, flow as getFlow, steps as getSteps } from "../api/client";
import type { Edge, Flow, Step } from "../api/types";
import { known, may } from "../app/access";
import { useKeys } from "../app/keys";
import { useRead } from "../app/query";
import { useStore } from "../app/store";
import { clock } from "../model/time";
import { EDGES_DRAWN_MAX, STEPS_DRAWN_MAX } from "../model/flow";
import { Cancel, Recounted, Retry, RetryFrom } from "../parts/flowacts";
import { Graph, Layers } from "../parts/flowgraph";
import { Holds } from "../parts/flowholds";
import { Callbacks, Counts, FlowTag } from "../parts/flowparts";
import { Steps } from "../parts/flowsteps";
import { Heading } from "../parts/heading";
import { visible } from "../parts/payload";
import { Failure, Panel, When } from "../parts/small";
import { useWords } from "../words";

type Doing = "cancel" | "retry" | "recount" | { from: string };

interface Whole {
  flow: Flow;
  /** All steps and edges of a flow that is small enough. */
  kept: { steps: Step[]; edges: Edge[] } | null;
}

export function FlowPage({ name }: { name: string }) {
  const words = useWords();
  const say = words.flows;
  const access = useStore(known);
  const [doing, setDoing] = useState<Doing | null>(null);
  const last = useRef<{ of: string; edges: Edge[] } | null>(null);
  const ids = useRef(new Set<string>());
  const readWhole = async (stop: AbortSignal): Promise<Whole> => {
    const flow = await getFlow(name, stop);
    if (flow.counts.steps > STEPS_DRAWN_MAX) return { flow, kept: null };
    const { steps } = await getSteps(name, { from: 0, limit: STEPS_DRAWN_MAX }, stop);
    // Edges are read anew only if a step came, ended, runs again, or waits for fewer jobs.
    const of = JSON.stringify([flow.created_at, flow.counts, steps.map(({ waits }) => waits)]);
    const edges = last.current?.of === of ? last.current.edges : await getEdges(name, stop);
    last.current = { of, edges };
    ids.current = new Set([...steps, ...flow.callbacks].map(({ id }) => id));
    return { flow, kept: { steps, edges } };
  };
  const read = useRead(`flow ${name}`, readWhole, { every: 3_000, on: (change) => ids.current.has(change.id) });
  useKeys({ r: () => read.again(), Escape: () => history.back() }, doing === null);
  const lacks = access?.capabilities !== undefined && !access.capabilities.includes("flows");
  const isGone = read.error?.status === 404;
  if (!read.data) {
    if (lacks || isGone) return <><header class="title"><Heading name={name} /></header><p class="empty">{lacks ? say.unsupported : say.missing}</p></>;
    return read.error ? <Failure error={read.error} again={read.again} /> : <p class="empty">{words.list.loading}</p>;
  }
  const { flow, kept } = read.data;
  const { counts } = flow;
  const close = () => (setDoing(null), read.again());
  const admin = may(access, "admin") && !isGone;
  return (
    <>
      <header class="title">
        <Heading name={name} />
        <FlowTag state={flow.state} />
        <span class="dim">{say.onFailure}: {say.policy[flow.on_failure] ?? visible(flow.on_failure)}</span>
        <span class="actions">
          {admin ? <button data-action="retry" class={counts.dead ? "main" : ""} disabled={!counts.dead && !counts.cancelled} onClick={() => setDoing("retry")}>{say.retry}</button> : null}
          {isGone ? null : <button data-action="recount" onClick={() => setDoing("recount")}>{say.recount}</button>}
          {admin ? <button data-action="cancel" class="danger" disabled={!counts.open} onClick={() => setDoing("cancel")}>{say.cancel}</button> : null}
        </span>
      </header>
      {isGone ? <div class="note warn" role="alert">{say.missing}</div> : read.error ? <Failure error={read.error} again={read.again} /> : null}
      {flow.state === "open" ? <div class="note warn" role="status">{say.openNote} {flow.until ? say.openUntil(clock(flow.until)) : ""}</div> : null}
      <Panel title={say.progress} side={<Times flow={flow} />}><Counts counts={counts} /></Panel>
      {kept && kept.edges.length <= EDGES_DRAWN_MAX ? <Graph {...kept} /> : <Layers name={name} steps={counts.steps} kept={kept} />}
      <div class="columns">
        <Holds key={kept ? "" : "large"} flow={flow} kept={kept} />
        <Callbacks flow={flow} />
      </div>
      <Steps name={name} steps={counts.steps} retryFrom={admin && flow.state !== "open" ? (from) => setDoing({ from }) : null} />
      {doing === "cancel" ? <Cancel flow={flow} close={close} /> : null}
      {doing === "retry" ? <Retry flow={flow} close={close} /> : null}
      {doing === "recount" ? <Recounted name={name} close={close} /> : null}
      {doing && typeof doing === "object" ? <RetryFrom flow={flow} step={doing.from} close={close} /> : null}
    </>
  );
}

function Times({ flow }: { flow: Flow }) {
  const { flows: say } = useWords();
  return (
    <span class="dim times">
      <span>{say.created} <When at={flow.created_at} /></span>
      {flow.settled_at ? <span>{say.settled} <When at={flow.settled_at} /></span> : null}
      {flow.settled_at && flow.until ? <span>{say.forgotten} <When at={flow.until} /></span> : null}
    </span>
  );
}
