// The graph of a flow: its steps in layers, what each waits for, and the longest chain that is
// left.
import { useMemo } from "preact/hooks";
import { STEPS_MAX, edges as getEdges, steps as getSteps } from "../api/client";
import type { Edge, FlowCounts, State, Step, StepList } from "../api/types";
import { useRead } from "../app/query";
import { toJob } from "../app/route";
import { EDGES_DRAWN_MAX, NODE, STEPS_DRAWN_MAX, draw, isBad, isLeft, layersOf, longestChain } from "../model/flow";
import { useWords } from "../words";
import { CountsBar, StepTag } from "./flowparts";
import { visible } from "./payload";
import { Failure, Panel, count, shortId } from "./small";

const HEAD = 7;
const ONS = ["completed", "failed", "settled"] as const;

export function Graph({ steps, edges }: { steps: Step[]; edges: Edge[] }) {
  const { flows: say } = useWords();
  const drawing = useMemo(() => draw(steps, edges), [steps, edges]);
  const chain = useMemo(() => longestChain(steps, edges), [steps, edges]);
  const onChain = useMemo(() => new Set(chain.length > 1 ? chain : []), [chain]);
  const links = new Set(chain.slice(1).map((id, at) => `${chain[at]} ${id}`));
  const byId = new Map(steps.map((step) => [step.id, step]));
  const states = new Map(edges.map((edge) => [edge.from_id, edge.from_state]));
  const isOnChain = ({ from_id: from, to_id: to, on }: Edge) => on !== "failed" && links.has(`${from} ${to}`);
  // Drawn last, so that no other edge covers the chain.
  const lines = [...drawing.lines].sort((a, b) => Number(isOnChain(a.edge)) - Number(isOnChain(b.edge)));
  const used = new Set(edges.map(({ on }) => on));
  return (
    <Panel title={say.graph} hint={say.graphMeans} class="graph-panel">
      {chain.length ? <p class="dim chain-means" data-chain={chain.length}>{say.chain(chain.length)}</p> : null}
      <div class="graph" tabIndex={0} role="group" aria-label={say.graph}>
        <div class="graph-inside" style={{ width: `${drawing.width}px`, height: `${drawing.height}px` }}>
          <svg width={drawing.width} height={drawing.height} aria-hidden="true">
            {lines.map(({ edge, way, x, y }) => (
              <g key={`${edge.from_id} ${edge.to_id} ${edge.on}`} class={`edge on-${ONS.includes(edge.on) ? edge.on : "settled"} ${edge.met ? "met" : ""} ${isOnChain(edge) ? "chain" : ""}`}>
                <path d={way} />
                <path class="head" d={`M${x} ${y}l${-HEAD} ${-HEAD / 2}v${HEAD}z`} />
              </g>
            ))}
          </svg>
          {drawing.nodes.map(({ id, x, y }) => <Node key={id} id={id} step={byId.get(id)} state={states.get(id)} x={x} y={y} isOnChain={onChain.has(id)} />)}
        </div>
      </div>
      {used.size ? (
        <p class="caption">
          {ONS.filter((on) => used.has(on)).map((on) => <span key={on}><svg class="sample" width="26" height="8" aria-hidden="true"><g class={`edge on-${on}`}><path d="M0 4H26" /></g></svg> {say.on[on]}</span>)}
          {chain.length > 1 ? <span><svg class="sample" width="26" height="8" aria-hidden="true"><g class="edge chain"><path d="M0 4H26" /></g></svg> {say.longest}</span> : null}
        </p>
      ) : null}
    </Panel>
  );
}

function Node({ id, step, state, x, y, isOnChain }: { id: string; step: Step | undefined; state: string | undefined; x: number; y: number; isOnChain: boolean }) {
  const words = useWords();
  const say = words.flows;
  const name = step ? visible(step.name) : shortId(id);
  return (
    <a class={`node s-${step?.state ?? "held"} ${step ? "" : "outside"} ${isOnChain ? "chain" : ""} ${step && isBad(step) ? "bad" : ""}`} href={toJob(id)} data-step={step?.name} title={step ? name : `${say.outside} ${id}`} style={{ left: `${x}px`, top: `${y}px`, width: `${NODE.width}px`, height: `${NODE.height}px` }}>
      <b>{name}</b>
      {step ? <StepTag step={step} /> : <span class="dim">{say.outside}{state ? ` (${words.state[state as State] ?? state})` : ""}</span>}
    </a>
  );
}

/** Layers that are shown of a flow that is too large to draw. */
const LAYERS_MAX = 30;

/** Of a flow that is not drawn: why not, and the counts of each layer. */
export function Layers({ name, steps: many, kept }: { name: string; steps: number; kept: { steps: Step[]; edges: Edge[] } | null }) {
  const { flows: say } = useWords();
  const has = kept !== null || many <= STEPS_MAX;
  // Edges change only as the flow grows; states are polled.
  const graph = useRead(`edges ${name} ${many} ${kept !== null}`, (stop) => (kept || !has ? Promise.resolve([]) : getEdges(name, stop)));
  const now = useRead(`states ${name} ${many} ${kept !== null}`, (stop): Promise<StepList> => (kept || !has ? Promise.resolve({ steps: [] }) : getSteps(name, { from: 0, limit: STEPS_MAX }, stop)), { every: 5_000 });
  const edges = kept?.edges ?? graph.data;
  const steps = kept?.steps ?? now.data?.steps;
  const ids = useMemo(() => (edges && steps && has ? layersOf(steps, edges) : []), [edges, steps, has]);
  const why = kept ? say.tooManyEdges(kept.edges.length, EDGES_DRAWN_MAX) : has ? say.tooManySteps(many, STEPS_DRAWN_MAX) : say.noGraph(many, STEPS_MAX);
  const byId = new Map(steps?.map((step) => [step.id, step]));
  const layers = ids.map((layer) => layer.map((id) => byId.get(id)).filter((step): step is Step => step !== undefined)).filter((layer) => layer.length);
  const chain = steps && edges && has ? longestChain(steps, edges).length : 0;
  // From the one before the first that has something left.
  const begin = Math.max(0, Math.min(layers.findIndex((layer) => layer.some(isLeft)) - 1, layers.length - LAYERS_MAX));
  const shown = layers.slice(begin, begin + LAYERS_MAX);
  const error = graph.error ?? now.error;
  return (
    <Panel title={say.graph}>
      <p class="dim why-no-graph">{why} {chain ? say.chain(chain) : ""}</p>
      {error ? <Failure error={error} /> : null}
      {shown.length ? (
        <table class="grid-table layers">
          <thead><tr><th>{say.layer}</th><th class="n">{say.steps}</th><th>{say.stand}</th></tr></thead>
          <tbody>{shown.map((layer, at) => <tr key={at} data-layer={begin + at + 1}><td>{count(begin + at + 1)}</td><td class="n">{count(layer.length)}</td><td><CountsBar counts={countsOf(layer)} /></td></tr>)}</tbody>
        </table>
      ) : null}
      {layers.length > shown.length ? <p class="dim">{say.layersOf(begin + 1, begin + shown.length, layers.length)}</p> : null}
    </Panel>
  );
}

function countsOf(steps: Step[]): FlowCounts {
  const many = (wanted: (step: Step) => boolean) => steps.filter(wanted).length;
  return {
    steps: steps.length, open: many(isLeft), skipped: many((step) => step.skipped), completed: many((step) => step.state === "completed"),
    cancelled: many((step) => step.state === "cancelled" && !step.skipped), dead: many((step) => step.state === "dead"),
  };
}
