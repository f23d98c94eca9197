// All flows by name: their states, how many steps have settled, since when.
import { useState } from "preact/hooks";
import { FLOWS_MAX, flows } from "../api/client";
import type { Flow, FlowState } from "../api/types";
import { known } from "../app/access";
import { useKeys } from "../app/keys";
import { useRead } from "../app/query";
import { toFlow } from "../app/route";
import { useStore } from "../app/store";
import { CountsBar, FlowTag } from "../parts/flowparts";
import { Heading } from "../parts/heading";
import { visible } from "../parts/payload";
import { Failure, When, count } from "../parts/small";
import { useWords } from "../words";

const FLOW_STATES: FlowState[] = ["open", "running", "done", "failed", "cancelled"];

export function FlowsPage() {
  const words = useWords();
  const say = words.flows;
  const about = useStore(known);
  const [text, setText] = useState("");
  const [state, setState] = useState<FlowState | "">("");
  const [after, setAfter] = useState<string[]>([]);
  const read = useRead(`flows ${after.at(-1) ?? ""}`, (stop) => flows(after.at(-1) ?? "", stop), { every: 5_000 });
  useKeys({ r: () => read.again() });
  const all = read.data?.flows ?? [];
  const wanted = text.toLowerCase();
  const shown = all.filter((one) => (!state || one.state === state) && one.name.toLowerCase().includes(wanted));
  const next = read.data?.next;
  const lacks = about?.capabilities !== undefined && !about.capabilities.includes("flows");
  return (
    <>
      <header class="title">
        <Heading name={say.title} />
        <span class="dim">{say.text}</span>
        <span class="actions">
          <select name="state" aria-label={words.list.state} value={state} onChange={(event) => setState(event.currentTarget.value as FlowState | "")}>
            <option value="">{words.filter.any}</option>
            {FLOW_STATES.map((one) => <option key={one} value={one}>{say.state[one]}</option>)}
          </select>
          <input type="search" class="small" placeholder={say.filter} aria-label={say.filter} value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </span>
      </header>
      {lacks ? <p class="empty">{say.unsupported}</p> : read.error ? <Failure error={read.error} again={read.again} /> : null}
      {read.data ? (
        <section class="panel wide-table">
          {shown.length ? (
            <table class="grid-table flows">
              <thead><tr><th>{say.name}</th><th>{words.list.state}</th><th class="n">{say.steps}</th><th>{say.stand}</th><th>{say.created}</th><th>{say.settled}</th></tr></thead>
              <tbody>{shown.map((one) => <Row key={one.name} flow={one} />)}</tbody>
            </table>
          ) : <p class="empty">{all.length ? say.noMatch : <>{say.none} <code>{say.example}</code></>}</p>}
          {next || after.length ? (
            <p class="buttons-row">
              {after.length ? <button onClick={() => setAfter(after.slice(0, -1))}>{say.previousPage}</button> : null}
              {next ? <button onClick={() => setAfter([...after, next])}>{say.nextPage(FLOWS_MAX)}</button> : null}
            </p>
          ) : null}
        </section>
      ) : read.error || lacks ? null : <p class="empty">{words.list.loading}</p>}
    </>
  );
}

function Row({ flow: { name, state, counts, created_at: created, settled_at: settled } }: { flow: Flow }) {
  return (
    <tr data-flow={name}>
      <td><a href={toFlow(name)}>{visible(name)}</a></td>
      <td><FlowTag state={state} /></td>
      <td class="n">{counts.open ? `${count(counts.steps - counts.open)} / ${count(counts.steps)}` : count(counts.steps)}</td>
      <td><CountsBar counts={counts} /></td>
      <td class="dim"><When at={created} /></td>
      <td class="dim"><When at={settled} /></td>
    </tr>
  );
}
