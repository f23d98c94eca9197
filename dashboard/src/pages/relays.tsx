// The relays that this server runs: rate, lag, refused, last error of each.
import { relays } from "../api/client";
import type { Relay, RelayState } from "../api/types";
import { useKeys } from "../app/keys";
import { useRead } from "../app/query";
import { toJobs, toQueue } from "../app/route";
import { span } from "../model/time";
import { Heading } from "../parts/heading";
import { visible } from "../parts/payload";
import { Failure, count } from "../parts/small";
import { useWords } from "../words";

/** The colours of states of jobs. */
const LIKE: Record<RelayState, string> = { connecting: "scheduled", running: "active", engine_refuses: "ready", down: "dead" };

export function RelaysPage() {
  const words = useWords();
  const say = words.relays;
  const read = useRead("relays", relays, { every: 2_000 });
  useKeys({ r: () => read.again() });
  const all = read.data?.relays ?? [];
  return (
    <>
      <header class="title">
        <Heading name={say.title} />
        <span class="dim">{say.text}</span>
      </header>
      {read.error ? <Failure error={read.error} again={read.again} /> : null}
      {read.data ? (
        <section class="panel wide-table">
          {all.length ? (
            <table class="grid-table relays">
              <thead><tr><th>{say.name}</th><th>{words.list.state}</th><th>{say.queue}</th><th class="n">{say.rate}</th><th class="n">{say.lag}</th><th class="n">{say.enqueued}</th><th class="n">{say.emitted}</th><th class="n">{say.refused}</th><th class="n">{say.restarts}</th><th>{say.seen}</th><th>{say.lastError}</th></tr></thead>
              <tbody>{all.map((one) => <Row key={one.name} relay={one} />)}</tbody>
            </table>
          ) : <p class="empty">{say.none} <code>{say.example}</code></p>}
        </section>
      ) : read.error ? null : <p class="empty">{words.list.loading}</p>}
    </>
  );
}

function Row({ relay }: { relay: Relay }) {
  const { relays: say } = useWords();
  const { name, kind, state, queue, rate, lag, enqueued, emitted, refused, restarts, age_ms: age, last_error: error, refused_queue: refusedQueue } = relay;
  return (
    <tr data-relay={name}>
      <td>{visible(name)} <span class="dim">{visible(kind)}</span></td>
      <td><span class={`state s-${LIKE[state] ?? "held"}`} data-relay-state={state} title={say.stateMeans[state]}>{say.state[state] ?? visible(state)}</span></td>
      <td>{queue.endsWith("*") ? visible(queue) : <a href={toQueue(queue)}>{visible(queue)}</a>}</td>
      <td class="n">{count(rate)}</td>
      <td class="n">{lag === undefined || lag === null ? <span class="dim" title={say.unknownLag}>–</span> : count(lag)}</td>
      <td class="n">{count(enqueued)}</td>
      <td class="n">{count(emitted)}</td>
      <td class="n">{refused ? <a href={toJobs({ queue: refusedQueue, state: "dead" })} title={say.refusedMeans}>{count(refused)}</a> : count(refused)}</td>
      <td class="n">{count(restarts)}</td>
      <td class="dim">{say.ago(span(age))}</td>
      <td>{error ? visible(error) : null}</td>
    </tr>
  );
}
