// The subscriptions of the namespace, and which of them a message would reach.
import { useState } from "preact/hooks";
import { matchMessage, subscriptions } from "../api/client";
import type { Matched, Subscription, SubscriptionFilter } from "../api/types";
import { useKeys } from "../app/keys";
import { useRead } from "../app/query";
import { toQueue } from "../app/route";
import { Heading } from "../parts/heading";
import { visible } from "../parts/payload";
import { Failure } from "../parts/small";
import { useWords } from "../words";

/** One line for a filter, as `punctual topics subscribe --filter` takes it. */
function filterText({ on, one_of: some, none_of: none, prefix, exists, min, max, within }: SubscriptionFilter): string {
  const tests = [
    some ? (some.length === 1 ? `${on} = ${some[0]}` : `${on} in [${some.join(",")}]`) : "",
    none ? (none.length === 1 ? `${on} != ${none[0]}` : `${on} not in [${none.join(",")}]`) : "",
    prefix ? `${on} starts with ${prefix}` : "",
    exists === true ? `${on} exists` : exists === false ? `${on} absent` : "",
    min != null && max != null ? `${on} in ${min}..${max}` : min != null ? `${on} >= ${min}` : max != null ? `${on} <= ${max}` : "",
    within ? `${on} within ${within}` : "",
  ];
  return tests.filter(Boolean).join(", ");
}

/** `name=value` a line; a line without `=` is an error of its own. */
function readHeaders(text: string): Record<string, string> | undefined {
  const headers: Record<string, string> = {};
  for (const line of text.split("\n").map((line) => line.trim()).filter(Boolean)) {
    const at = line.indexOf("=");
    if (at < 1) return undefined;
    headers[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return headers;
}

export function TopicsPage() {
  const words = useWords();
  const say = words.topics;
  const [text, setText] = useState("");
  const [asked, setAsked] = useState<Matched[] | null>(null);
  const read = useRead("topics", subscriptions, { every: 5_000 });
  useKeys({ r: () => read.again() });
  const all = read.data?.subscriptions ?? [];
  const wanted = text.toLowerCase();
  const shown = all.filter((one) => `${one.name} ${one.pattern} ${one.queue} ${(one.filters ?? []).map(filterText).join(" ")}`.toLowerCase().includes(wanted));
  const verdicts = new Map((asked ?? []).map((one) => [one.name, one]));
  return (
    <>
      <header class="title">
        <Heading name={say.title} />
        <span class="dim">{say.text}</span>
        <span class="actions"><input type="search" class="small" placeholder={say.filter} aria-label={say.filter} value={text} onInput={(event) => setText(event.currentTarget.value)} /></span>
      </header>
      {read.error ? <Failure error={read.error} again={read.again} /> : null}
      {read.data ? (
        <>
          {all.length ? <MatchForm answered={setAsked} /> : null}
          {asked ? <div class="note" role="status">{say.matched(asked.filter((one) => one.matches).length, asked.length)}</div> : null}
          <section class="panel wide-table">
            {shown.length ? (
              <table class="grid-table topics">
                <thead><tr><th>{say.name}</th><th>{say.pattern}</th><th>{say.filters}</th><th>{say.queue}</th><th>{say.does}</th>{asked ? <th>{say.receives}</th> : null}</tr></thead>
                <tbody>{shown.map((one) => <Row key={one.name} of={one} verdict={asked ? verdicts.get(one.name) : undefined} isAsked={asked !== null} />)}</tbody>
              </table>
            ) : <p class="empty">{all.length ? say.noMatch : <>{say.none} <code>{say.example}</code></>}</p>}
          </section>
        </>
      ) : read.error ? null : <p class="empty">{words.list.loading}</p>}
    </>
  );
}

function Row({ of, verdict, isAsked }: { of: Subscription; verdict: Matched | undefined; isAsked: boolean }) {
  const { topics: say } = useWords();
  return (
    <tr data-subscription={of.name} data-matches={verdict ? String(verdict.matches) : undefined}>
      <td>{visible(of.name)}</td>
      <td><code>{visible(of.pattern)}</code></td>
      <td>{(of.filters ?? []).map((one, nth) => <div key={nth}><code>{visible(filterText(one))}</code></div>)}</td>
      <td><a href={toQueue(of.queue)}>{visible(of.queue)}</a></td>
      <td class="dim">{of.delivery === "cancel" ? say.cancels : say.enqueues}</td>
      {isAsked ? <td>{verdict === undefined ? "" : verdict.matches ? <b>{say.yes}</b> : <span class="dim">{visible(verdict.why_not ?? say.no)}</span>}</td> : null}
    </tr>
  );
}

/** Asks who would receive a message; nothing is stored. */
function MatchForm({ answered }: { answered(answer: Matched[] | null): void }) {
  const { topics: say } = useWords();
  const [subject, setSubject] = useState("");
  const [headers, setHeaders] = useState("");
  const [kind, setKind] = useState("");
  const [error, setError] = useState<string | null>(null);
  const ask = async (event: Event) => {
    event.preventDefault();
    const read = readHeaders(headers);
    if (!read) {
      setError(say.headersHint);
      return;
    }
    try {
      const answer = await matchMessage(subject, { payload: null, headers: read, ...(kind && { kind }) });
      setError(null);
      answered(answer.subscriptions);
    } catch (failure) {
      answered(null);
      setError(failure instanceof Error ? failure.message : String(failure));
    }
  };
  return (
    <form class="panel filters" onSubmit={ask}>
      <label>{say.subject} <input name="subject" required placeholder="orders.eu.paid" value={subject} onInput={(event) => setSubject(event.currentTarget.value)} /></label>
      <label>{say.headers} <textarea name="headers" rows={1} placeholder="country=de" value={headers} onInput={(event) => setHeaders(event.currentTarget.value)} /></label>
      <label>{say.kind} <input name="kind" value={kind} onInput={(event) => setKind(event.currentTarget.value)} /></label>
      <button class="main" data-action="match">{say.ask}</button>
      {error ? <p class="note bad" role="alert">{visible(error)}</p> : null}
    </form>
  );
}
