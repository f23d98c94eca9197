// The jobs of a queue by kind.
import { kinds } from "../api/client";
import { type KindLine, STATES } from "../api/types";
import { useRead } from "../app/query";
import { toJobs } from "../app/route";
import { span } from "../model/time";
import { useWords } from "../words";
import { visible } from "./payload";
import { Failure, Panel, short } from "./small";

const KINDS_SHOWN = 50;

export function Kinds({ queue }: { queue: string }) {
  const words = useWords();
  const read = useRead(`kinds ${queue}`, (stop) => kinds(queue, stop), { every: 30_000, on: (change) => change.queue === queue, atMost: 5_000 });
  const found = read.data?.kinds ?? [];
  if (!read.data) return read.error ? <Failure error={read.error} again={read.again} /> : <p class="empty">{words.list.loading}</p>;
  const all = [...found].sort((a, b) => weight(b) - weight(a));
  return (
    <Panel class="kinds" title={words.kinds.title} hint={read.data.exact ? undefined : words.kinds.inexact}>
      <div class="wide-table">
        <table class="grid-table">
          <thead>
            <tr><th>{words.list.kind}</th>{STATES.map((state) => <th key={state} class="n">{words.state[state]}</th>)}<th class="n">{words.kinds.failures}</th><th class="n">{words.kinds.crashes}</th><th class="n">{words.queues.oldest}</th></tr>
          </thead>
          <tbody>
            {all.slice(0, KINDS_SHOWN).map((line) => (
              <tr key={line.kind ?? ""} data-kind={line.kind}>
                <td>{line.kind === undefined ? <span class="dim">{words.kinds.rest}</span> : <a href={toJobs({ queue, kind: line.kind })}>{visible(line.kind)}</a>}</td>
                {STATES.map((state) => <td key={state} class="n">{line[state] && line.kind !== undefined ? <a class={`state-count s-${state}`} href={toJobs({ queue, kind: line.kind, state })}>{short(line[state])}</a> : <span class="dim">{line[state] ? short(line[state]) : "–"}</span>}</td>)}
                <td class={`n ${line.failures ? "warn-text" : "dim"}`}>{line.failures ? short(line.failures) : "–"}</td>
                <td class={`n ${line.crashes ? "bad-text" : "dim"}`}>{line.crashes ? short(line.crashes) : "–"}</td>
                <td class="n">{line.oldest_due_ms === undefined ? <span class="dim">–</span> : span(line.oldest_due_ms)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {found.length ? null : <p class="empty">{words.list.none}</p>}
      {all.length > KINDS_SHOWN ? <p class="dim">{words.problems.more(all.length - KINDS_SHOWN)}</p> : null}
    </Panel>
  );
}

/** What is wrong or waits comes before what is done. */
const weight = (line: KindLine) => line.dead * 1e6 + line.ready * 1e3 + line.active * 1e3 + line.scheduled + line.held;
