// What the server is: its engine, what an answer survives, what it takes, and whether its loops
// run.
import { info } from "../api/client";
import { known } from "../app/access";
import { useKeys } from "../app/keys";
import { useRead } from "../app/query";
import { useStore } from "../app/store";
import { clock, span } from "../model/time";
import { Heading } from "../parts/heading";
import { visible } from "../parts/payload";
import { Failure, Panel, bytes, count } from "../parts/small";
import { useWords } from "../words";

/** A loop that has not shown itself for that long stands out. */
const SILENT_MS = 15_000;

export function EnginePage() {
  const words = useWords();
  const { engine: say } = words;
  const read = useRead("engine", info, { every: 5_000 });
  useKeys({ r: () => read.again() });
  const about = read.data ?? useStore(known);
  if (!about) return <><Heading name={say.title} />{read.error ? <Failure error={read.error} again={read.again} /> : <p class="empty">{words.list.loading}</p>}</>;
  const { process, limits, health } = about;
  const facts: [string, string | undefined, string?][] = [
    [say.engine, about.engine],
    [say.version, process && process.version !== about.version ? `${about.version} (${say.gateway} ${process.version})` : about.version],
    [say.durability, about.durability, say.durabilityMeans[about.durability.split("(")[0]!]],
    [say.shards, about.shards === undefined ? undefined : count(about.shards)],
    [say.store, about.store_bytes === undefined ? undefined : bytes(about.store_bytes)],
    [say.memory, process?.memory_bytes === undefined ? undefined : bytes(process.memory_bytes)],
    [say.uptime, process && span(process.uptime_ms)],
    [say.jumps, count(about.clock_jumps)],
    [say.now, clock(about.now)],
    [say.namespace, about.namespace],
    [say.scopes, about.scopes.join(", ")],
  ];
  return (
    <>
      <header class="title"><Heading name={say.title} /></header>
      {read.error ? <Failure error={read.error} again={read.again} /> : null}
      <div class={`note ${health.ok ? "ok" : "bad"}`} role="status" data-ok={health.ok}>
        {health.ok ? say.healthy : <ul>{(health.problems ?? []).map((text) => <li key={text}>{visible(text)}</li>)}</ul>}
      </div>
      <div class="columns">
        <Panel title={say.facts}>
          <dl class="fields">
            {facts.map(([name, value, means]) => value === undefined ? null : <div key={name}><dt>{name}</dt><dd>{visible(value)}{means ? <span class="dim"> {means}</span> : null}</dd></div>)}
          </dl>
          {process ? null : <p class="dim">{say.operator}</p>}
        </Panel>
        <div>
          {health.loops?.length ? (
            <Panel title={say.loops}>
              <table class="grid-table">
                <thead><tr><th>{say.loop}</th><th class="n">{say.beat}</th><th class="n">{say.restarts}</th></tr></thead>
                <tbody>{health.loops.map((loop) => <tr key={loop.name}><td>{visible(loop.name)}</td><td class={`n ${loop.age_ms > SILENT_MS ? "bad-text" : ""}`}>{words.time.ago(span(loop.age_ms))}</td><td class={`n ${loop.restarts ? "warn-text" : ""}`}>{count(loop.restarts)}</td></tr>)}</tbody>
              </table>
            </Panel>
          ) : null}
          {limits ? (
            <Panel title={say.limits}>
              <dl class="fields">{Object.entries(limits).map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{name.endsWith("_bytes") ? bytes(value) : count(value)}</dd></div>)}</dl>
            </Panel>
          ) : null}
          {about.capabilities?.length ? <Panel title={say.capabilities}><p class="dim">{about.capabilities.join(", ")}</p></Panel> : null}
        </div>
      </div>
    </>
  );
}
