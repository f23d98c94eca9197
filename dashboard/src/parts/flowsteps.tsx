// The steps of a flow as a table: by pages, or those of one state.
import { useState } from "preact/hooks";
import { STEPS_MAX, stepsWithResults } from "../api/client";
import { STATES, type State, type StepResult, isSettled } from "../api/types";
import { useRead } from "../app/query";
import { toJob } from "../app/route";
import { useWords } from "../words";
import { StepTag } from "./flowparts";
import { Payload, visible } from "./payload";
import { Failure, Panel, count, shortId } from "./small";

const PAGE = 100;
/** With a state, steps are examined until that many were, or a page is full. */
const EXAMINED_MAX = 10_000;
const RESULT_SHOWN = 80;

interface Found {
  steps: StepResult[];
  examined: number;
  next?: number;
}

async function find(name: string, from: number, state: State | "", stop: AbortSignal): Promise<Found> {
  if (!state) {
    const page = await stepsWithResults(name, { from, limit: PAGE }, stop);
    return { ...page, examined: page.steps.length };
  }
  const steps: StepResult[] = [];
  // A page has what its last call found, so that no step is left out.
  const limit = STEPS_MAX / 4;
  for (let at = from; ; ) {
    const page = await stepsWithResults(name, { from: at, limit, state }, stop);
    steps.push(...page.steps);
    const { next } = page;
    if (next === undefined) return { steps, examined: at + limit - from };
    at = next;
    if (steps.length >= PAGE || at - from >= EXAMINED_MAX) return { steps, examined: at - from, next };
  }
}

export function Steps({ name, steps: many, retryFrom }: { name: string; steps: number; retryFrom: ((step: string) => void) | null }) {
  const words = useWords();
  const say = words.flows;
  const [state, setState] = useState<State | "">("");
  const [pages, setPages] = useState<number[]>([]);
  const from = pages.at(-1) ?? 0;
  const read = useRead(`steps ${name} ${from} ${state}`, (stop) => find(name, from, state, stop), { every: 5_000 });
  const found = read.data;
  const next = found?.next;
  const choose = (
    <select name="state" aria-label={words.list.state} value={state} onChange={(event) => (setState(event.currentTarget.value as State | ""), setPages([]))}>
      <option value="">{words.filter.any}</option>
      {STATES.map((one) => <option key={one} value={one}>{words.state[one]}</option>)}
    </select>
  );
  return (
    <Panel title={say.stepsTitle} hint={count(many)} side={choose} class="wide-table">
      {read.error ? <Failure error={read.error} again={read.again} /> : null}
      {!found ? (read.error ? null : <p class="empty">{words.list.loading}</p>) : found.steps.length ? (
        <table class="grid-table flow-steps">
          <thead><tr><th>{say.step}</th><th>{words.list.state}</th><th class="n">{say.waits}</th><th>{say.job}</th><th>{say.result}</th>{retryFrom ? <th /> : null}</tr></thead>
          <tbody>
            {found.steps.map((step) => (
              <tr key={step.id} data-step={step.name}>
                <td><a href={toJob(step.id)}>{visible(step.name)}</a></td>
                <td><StepTag step={step} /></td>
                <td class="n" data-label={say.waits}>{step.waits ? count(step.waits) : ""}</td>
                <td><a class="id" href={toJob(step.id)}>{shortId(step.id)}</a></td>
                <td><Result step={step} /></td>
                {retryFrom ? <td class="n">{isSettled(step.state) ? <button class="plain link" data-action="retry-from" onClick={() => retryFrom(step.name)}>{say.retryFrom}</button> : null}</td> : null}
              </tr>
            ))}
          </tbody>
        </table>
      ) : <p class="empty">{next === undefined ? say.noSteps : say.noneYet}</p>}
      {found && (state || next !== undefined || pages.length) ? (
        <p class="buttons-row dim">
          {state ? words.list.examined(Math.min(found.examined, many - from)) : say.places(from + 1, from + found.steps.length)}
          {pages.length ? <button onClick={() => setPages(pages.slice(0, -1))}>{say.previousPage}</button> : null}
          {next !== undefined ? <button onClick={() => setPages([...pages, next])}>{say.more}</button> : null}
        </p>
      ) : null}
    </Panel>
  );
}

function Result({ step: { source, result_base64: base64 } }: { step: StepResult }) {
  if (source === undefined && base64 === undefined) return null;
  const text = visible(source ?? base64 ?? "");
  if (source !== undefined && text.length <= RESULT_SHOWN) return <code>{text}</code>;
  return (
    <details>
      <summary><code>{text.slice(0, RESULT_SHOWN)}…</code></summary>
      <Payload text={source ?? null} {...(base64 !== undefined && { base64 })} />
    </details>
  );
}
