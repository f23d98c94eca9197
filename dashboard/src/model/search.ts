// What the search box means, and which lists answer a query without looking at every job.
import { STATES, type Filter, type Query, type QueueNow, type State } from "../api/types";
import { readInstant, readSpan } from "./time";

const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
export const isId = (text: string) => ID.test(text.trim());
/**
 * The end of an id as commands take it, eight or more of its characters; null if the text is none.
 */
export function idEnd(text: string): string | null {
  const end = text.trim().replaceAll("-", "").toLowerCase();
  return /^[0-9a-f]{8,31}$/.test(end) ? end : null;
}
export const isState = (text: string): text is State => (STATES as readonly string[]).includes(text);

/** The fields of a search, as they stand in the address of the page. */
export interface Search {
  queue?: string;
  state?: string;
  kind?: string;
  text?: string;
  error?: string;
  unique?: string;
  group?: string;
  limit?: string;
  from?: string;
  before?: string;
  older?: string;
}
export const SEARCH_FIELDS = ["queue", "state", "kind", "text", "error", "unique", "group", "limit", "from", "before", "older"] as const;

/** `kind:mail state:dead unique:"order 7" refund` into fields; the rest is text in the payload. */
export function readSearch(text: string): Search {
  const found: Search = {};
  const rest: string[] = [];
  for (const [, name, quoted, bare, word] of text.matchAll(/(\w+):(?:"([^"]*)"|(\S+))|("[^"]*"|\S+)/g)) {
    const field = SEARCH_FIELDS.find((known) => known === name);
    const value = quoted ?? bare ?? "";
    if (field) found[field] = value;
    else rest.push(word?.replace(/^"(.*)"$/, "$1") ?? `${name}:${value}`);
  }
  if (rest.length) found.text = rest.join(" ");
  return found;
}

/** Fields as the gateway asks for them; null if an instant cannot be read. */
export function toQuery(search: Search): Query | null {
  const { queue, state, kind, text, error, unique, group, limit, from, before, older } = search;
  const dueFrom = from ? readInstant(from) : undefined;
  const dueBefore = before ? readInstant(before) : undefined;
  if (dueFrom === null || dueBefore === null || (older && readSpan(older) === null)) return null;
  return {
    ...(queue && { queue }), ...(state && isState(state) && { state }), ...(kind && { kind }), ...(text && { text }), ...(error && { error }),
    ...(unique && { unique }), ...(group && { group }), ...(limit && { limit_name: limit }), ...(dueFrom && { due_from: dueFrom }), ...(dueBefore && { due_before: dueBefore }),
    ...(older && { older_than: older.replaceAll(/\s/g, "") }),
  };
}

/** A query as the filter of a bulk edit; null if it has none of that kind, or is empty. */
export function toFilter(query: Query): Filter | null {
  const { unique, group, limit_name: limit, ...filter } = query;
  return unique || group || limit || !Object.keys(filter).length ? null : filter;
}

/** The order in which a person wants to see the jobs of a queue. */
const ORDER: State[] = ["active", "ready", "scheduled", "held", "dead", "cancelled", "completed"];

/** The lists to walk, one after the other. With a queue or a state each goes by an index. */
export function plan(query: Query, queues: QueueNow[]): Query[] {
  if (query.unique || query.group || query.limit_name) return [query];
  const { queue, state } = query;
  if (queue && state) return [query];
  if (queue) {
    const counts = queues.find((one) => one.queue === queue);
    return ORDER.filter((one) => !counts || counts[one] > 0).map((one) => ({ ...query, state: one }));
  }
  if (state) {
    const full = queues.filter((one) => one[state] > 0).sort((a, b) => b[state] - a[state]);
    return full.map((one) => ({ ...query, queue: one.queue }));
  }
  return [query];
}

/** How many jobs a query finds, where counters have it. */
export function expected(query: Query, queues: QueueNow[]): number | null {
  const { queue, state, ...rest } = query;
  if (Object.keys(rest).length) return null;
  const of = queues.filter((one) => !queue || one.queue === queue);
  return of.reduce((sum, one) => sum + (state ? one[state] : STATES.reduce((all, each) => all + one[each], 0)), 0);
}

/** Whether every job of the namespace would be looked at. */
export const isScan = (query: Query) => !query.queue && !query.state && !query.unique && !query.group && !query.limit_name;
