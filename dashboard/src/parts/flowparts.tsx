// How a flow stands: its state as a word, its steps as a bar, its callbacks.
import type { Edge, Flow, FlowCounts, FlowState, Step } from "../api/types";
import { toJob } from "../app/route";
import { PARTS } from "../model/flow";
import { useWords } from "../words";
import { visible } from "./payload";
import { Panel, StateTag, count, shortId } from "./small";

/** A flow has the colours of the jobs that it is like. */
const LIKE: Record<FlowState, string> = { open: "held", running: "active", done: "completed", failed: "dead", cancelled: "cancelled" };
const PART_LIKE: Record<(typeof PARTS)[number], string> = { completed: "active", skipped: "completed", cancelled: "held", dead: "dead", open: "scheduled" };

export function FlowTag({ state }: { state: FlowState }) {
  const { flows: say } = useWords();
  return <span class={`state s-${LIKE[state] ?? "held"}`} data-flow-state={state} title={say.stateMeans[state]}>{say.state[state] ?? visible(state)}</span>;
}

/** A bar of the counts; a screen reader gets them as text. */
export function CountsBar({ counts }: { counts: FlowCounts }) {
  const { flows: say } = useWords();
  const shown = PARTS.filter((part) => counts[part]);
  const text = shown.map((part) => `${say.part[part]} ${count(counts[part])}`).join(", ");
  return (
    <span class="flow-bar" role="img" aria-label={text} title={text}>
      {shown.map((part) => <i key={part} class={`s-${PART_LIKE[part]}`} style={{ flexGrow: counts[part] }} />)}
    </span>
  );
}

/** The bar with its numbers. */
export function Counts({ counts }: { counts: FlowCounts }) {
  const { flows: say } = useWords();
  return (
    <div class="flow-counts">
      <CountsBar counts={counts} />
      <p class="caption">
        <span>{say.settledOf(counts.steps - counts.open, counts.steps)}</span>
        {PARTS.filter((part) => counts[part]).map((part) => <span key={part} class={`part s-${PART_LIKE[part]}`} data-part={part}>{say.part[part]} <b>{count(counts[part])}</b></span>)}
      </p>
    </div>
  );
}

/** How a step stands: one that was passed over is cancelled, but not at fault. */
export const StepTag = ({ step }: { step: Step }) => {
  const { flows: say } = useWords();
  return step.skipped ? <span class="state s-cancelled" title={say.skippedMeans}>{say.part.skipped}</span> : <StateTag state={step.state} />;
};

export function Callbacks({ flow }: { flow: Flow }) {
  const { flows: say } = useWords();
  const settled = flow.settled_at !== undefined;
  return (
    <Panel title={say.callbacks} hint={say.callbacksMean} class="callbacks">
      <ul class="running">
        {flow.callbacks.map(({ on, id, fired }) => (
          <li key={id} data-callback={on} data-fired={fired}>
            <code>{visible(on)}</code> <a class="id" href={toJob(id)}>{shortId(id)}</a>
            <span class={fired ? "" : "dim"}>{fired ? say.fired : settled ? say.notFired : say.willFire[on] ?? ""}</span>
          </li>
        ))}
        {flow.callbacks.length ? null : <li class="dim">{say.noCallbacks}</li>}
      </ul>
    </Panel>
  );
}

/** The job of another flow, or of none, at that end of an edge. */
export const outsideOf = (edges: Edge[], id: string) => edges.filter(({ from, to_id: to }) => !from && to === id).map(({ from_id: from }) => from);
