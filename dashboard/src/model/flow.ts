// How the steps of a flow depend on each other: layers, a drawing, the longest chain that is left,
// what holds the flow.
import { type Edge, type FlowCounts, type Step, isSettled } from "../api/types";

/** A larger flow is not drawn. */
export const STEPS_DRAWN_MAX = 200;
export const EDGES_DRAWN_MAX = 1_000;

/** The parts of a bar of counts, in the order in which they are drawn. */
export const PARTS = ["completed", "skipped", "cancelled", "dead", "open"] as const satisfies readonly (keyof FlowCounts)[];

export const isLeft = (step: Step) => !isSettled(step.state);
/** A step that was passed over did not end badly itself. */
export const isBad = (step: Step) => (step.state === "dead" || step.state === "cancelled") && !step.skipped;

/** The ids of each layer: a job is one layer behind the last of those that it waits for. */
export function layersOf(steps: Step[], edges: Edge[]): string[][] {
  const layer = new Map(steps.map(({ id }) => [id, 0]));
  const next = new Map<string, string[]>();
  const waits = new Map<string, number>();
  for (const { from_id: from, to_id: to } of edges) {
    for (const id of [from, to]) if (!layer.has(id)) layer.set(id, 0);
    const others = next.get(from);
    if (others) others.push(to);
    else next.set(from, [to]);
    waits.set(to, (waits.get(to) ?? 0) + 1);
  }
  const free = [...layer.keys()].filter((id) => !waits.has(id));
  for (let at = 0; at < free.length; at += 1) {
    for (const to of next.get(free[at]!) ?? []) {
      layer.set(to, Math.max(layer.get(to)!, layer.get(free[at]!)! + 1));
      const left = waits.get(to)! - 1;
      waits.set(to, left);
      if (!left) free.push(to);
    }
  }
  const layers: string[][] = [];
  for (const [id, at] of layer) (layers[at] ??= []).push(id);
  return Array.from(layers, (ids) => ids ?? []);
}

/** The longest chain of steps that are left, if all of them complete. */
export function longestChain(steps: Step[], edges: Edge[]): string[] {
  const left = new Set(steps.filter(isLeft).map(({ id }) => id));
  const best = new Map<string, { length: number; before: string | null }>();
  const into = new Map<string, string[]>();
  for (const { from_id: from, to_id: to, on } of edges) {
    // A step that waits for a failure is not on the way of a flow that goes well.
    if (on === "failed" || !left.has(from) || !left.has(to)) continue;
    const others = into.get(to);
    if (others) others.push(from);
    else into.set(to, [from]);
  }
  let last: string | null = null;
  for (const id of layersOf(steps, edges).flat()) {
    if (!left.has(id)) continue;
    let longest: { length: number; before: string | null } = { length: 1, before: null };
    for (const from of into.get(id) ?? []) {
      const length = (best.get(from)?.length ?? 0) + 1;
      if (length > longest.length) longest = { length, before: from };
    }
    best.set(id, longest);
    if (last === null || longest.length > best.get(last)!.length) last = id;
  }
  const chain: string[] = [];
  for (let at = last; at !== null; at = best.get(at)?.before ?? null) chain.unshift(at);
  return chain;
}

const WEIGHT = { dead: 0, cancelled: 1, active: 2, ready: 3, scheduled: 4, held: 5, completed: 6 };

/**
 * What keeps a flow from its end: steps that ended badly, and those that wait for no other step.
 */
export function holdsOf(steps: Step[], edges: Edge[]): Step[] {
  const names = new Set(steps.map(({ id }) => id));
  const inside = new Set(edges.filter(({ met, from_id: from }) => !met && names.has(from)).map(({ to_id: to }) => to));
  const outside = new Set(edges.filter(({ met, from_id: from }) => !met && !names.has(from)).map(({ to_id: to }) => to));
  const holds = steps.filter((step) => isBad(step) || (isLeft(step) && (step.waits === 0 || (outside.has(step.id) && !inside.has(step.id)))));
  return sortHolds(holds);
}

export const sortHolds = (holds: Step[]) => holds.sort((a, b) => WEIGHT[a.state] - WEIGHT[b.state]);

export const NODE = { width: 150, height: 38 };
const GAP = { x: 54, y: 12 };
/** The room that an edge takes on its way past a layer. */
const PASS_HEIGHT = 6;

export interface Placed {
  id: string;
  x: number;
  y: number;
}

export interface Line {
  edge: Edge;
  /** The way of an SVG path. */
  way: string;
  /** Where its head is. */
  x: number;
  y: number;
}

export interface Drawing {
  nodes: Placed[];
  lines: Line[];
  width: number;
  height: number;
}

/** A place in a layer: a node, or where edges to one node pass. */
interface Slot {
  id: string | null;
  layer: number;
  high: number;
  y: number;
  before: Slot[];
  after: Slot[];
}

const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
const middle = (slot: Slot) => slot.y + slot.high / 2;
const link = (from: Slot, to: Slot) => (from.after.push(to), to.before.push(from));

export function draw(steps: Step[], edges: Edge[]): Drawing {
  const slots = new Map<string, Slot>();
  const columns: Slot[][] = layersOf(steps, edges).map((ids, layer) =>
    ids.map((id) => {
      const slot: Slot = { id, layer, high: NODE.height, y: 0, before: [], after: [] };
      slots.set(id, slot);
      return slot;
    }),
  );
  const routes = edges.map((edge) => routeOf(edge, slots, columns));
  order(columns);
  place(columns);
  const all = columns.flat();
  const top = Math.min(...all.map(({ y }) => y), 0);
  for (const slot of all) slot.y -= top;
  const x = (layer: number) => layer * (NODE.width + GAP.x);
  return {
    nodes: [...slots].map(([id, { layer, y }]) => ({ id, x: x(layer), y })),
    lines: routes.map(({ edge, route }) => {
      const [first, ...rest] = route as [Slot, ...Slot[]];
      let way = `M${x(first.layer) + NODE.width} ${middle(first)}`;
      for (const slot of rest) {
        const [from, to] = [x(slot.layer) - GAP.x, x(slot.layer)];
        way += ` C${from + GAP.x / 2} ${middle(before(slot, route))} ${from + GAP.x / 2} ${middle(slot)} ${to} ${middle(slot)}`;
        if (slot.id === null) way += ` H${to + NODE.width}`;
      }
      const last = route.at(-1)!;
      return { edge, way, x: x(last.layer), y: middle(last) };
    }),
    width: x(columns.length) - GAP.x,
    height: Math.max(...all.map(({ y, high }) => y + high), NODE.height),
  };
}

const before = (slot: Slot, route: Slot[]) => route[route.indexOf(slot) - 1]!;

/** The places that an edge goes through; edges of one kind to one node share theirs. */
function routeOf(edge: Edge, slots: Map<string, Slot>, columns: Slot[][]): { edge: Edge; route: Slot[] } {
  const from = slots.get(edge.from_id)!;
  const to = slots.get(edge.to_id)!;
  const route = [from];
  for (let layer = from.layer + 1; layer < to.layer; layer += 1) {
    const passing = `${edge.to_id} ${edge.on} ${layer}`;
    let slot = passes.get(to)?.get(passing);
    if (!slot) {
      slot = { id: null, layer, high: PASS_HEIGHT, y: 0, before: [], after: [] };
      columns[layer]!.push(slot);
      passes.set(to, (passes.get(to) ?? new Map<string, Slot>()).set(passing, slot));
    }
    route.push(slot);
  }
  route.push(to);
  for (let at = 1; at < route.length; at += 1) link(route[at - 1]!, route[at]!);
  return { edge, route };
}
const passes = new WeakMap<Slot, Map<string, Slot>>();

/** Sorts each layer by where its neighbours are, forth and back, so that fewer edges cross. */
function order(columns: Slot[][]) {
  const index = new Map<Slot, number>();
  const number = (column: Slot[]) => column.forEach((slot, at) => index.set(slot, at));
  columns.forEach(number);
  const sort = (column: Slot[], side: "before" | "after") => {
    const wish = new Map(column.map((slot) => [slot, slot[side].length ? mean(slot[side].map((other) => index.get(other)!)) : index.get(slot)!]));
    column.sort((a, b) => wish.get(a)! - wish.get(b)!);
    number(column);
  };
  for (let turn = 0; turn < 4; turn += 1) {
    for (const column of columns) sort(column, "before");
    for (const column of [...columns].reverse()) sort(column, "after");
  }
}

/** Moves each place towards its neighbours, as far as those above and below let it. */
function place(columns: Slot[][]) {
  const stack = (column: Slot[], wish: (slot: Slot) => number) => {
    const wishes = column.map(wish);
    let end = -Infinity;
    column.forEach((slot, at) => {
      slot.y = Math.max(wishes[at]! - slot.high / 2, end + GAP.y);
      end = slot.y + slot.high;
    });
    const shift = column.length ? mean(column.map((slot, at) => middle(slot) - wishes[at]!)) : 0;
    for (const slot of column) slot.y -= shift;
  };
  for (const column of columns) stack(column, () => 0);
  for (let turn = 0; turn < 6; turn += 1) {
    const side = turn % 2 ? "after" : "before";
    const towards = (slot: Slot) => (slot[side].length ? mean(slot[side].map(middle)) : middle(slot));
    for (const column of turn % 2 ? [...columns].reverse() : columns) stack(column, towards);
  }
}
