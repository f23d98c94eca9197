// Who changed what in this namespace, the latest first.
import { useState } from "preact/hooks";
import { audit } from "../api/client";
import type { AuditEntry } from "../api/types";
import { useKeys } from "../app/keys";
import { useRead } from "../app/query";
import { clock } from "../model/time";
import { Heading } from "../parts/heading";
import { visible } from "../parts/payload";
import { Failure, When, count } from "../parts/small";
import { useWords } from "../words";

const ENTRIES_FIRST = 100;
const ENTRIES_MAX = 1_000;

export function AuditPage() {
  const words = useWords();
  const [limit, setLimit] = useState(ENTRIES_FIRST);
  const [text, setText] = useState("");
  const read = useRead(`audit ${limit}`, (stop) => audit(limit, stop), { every: 10_000 });
  useKeys({ r: () => read.again() });
  const entries = read.data?.entries ?? [];
  const wanted = text.toLowerCase();
  const shown = entries.filter((one) => `${one.who} ${one.action} ${one.on} ${one.phase}`.toLowerCase().includes(wanted));
  return (
    <>
      <header class="title">
        <Heading name={words.audit.title} />
        <span class="dim">{words.audit.text}</span>
        <span class="actions"><input type="search" class="small" placeholder={words.audit.filter} aria-label={words.audit.filter} value={text} onInput={(event) => setText(event.currentTarget.value)} /></span>
      </header>
      {read.error ? <Failure error={read.error} again={read.again} /> : null}
      {read.data ? (
        <section class="panel">
          {shown.length ? (
            <table class="grid-table audit">
              <thead><tr><th>{words.audit.at}</th><th>{words.audit.who}</th><th>{words.audit.action}</th><th>{words.audit.on}</th><th class="n">{words.audit.matched}</th></tr></thead>
              <tbody>{shown.map((entry) => <Row key={entry.id} entry={entry} />)}</tbody>
            </table>
          ) : <p class="empty">{entries.length ? words.list.none : words.audit.none}</p>}
          {entries.length === limit && limit < ENTRIES_MAX ? <p class="buttons-row"><button onClick={() => setLimit(ENTRIES_MAX)}>{words.audit.more(ENTRIES_MAX)}</button></p> : null}
        </section>
      ) : read.error ? null : <p class="empty">{words.list.loading}</p>}
    </>
  );
}

function Row({ entry }: { entry: AuditEntry }) {
  const { audit: words } = useWords();
  return (
    <tr data-phase={entry.phase}>
      <td><When at={entry.at} /> <span class="dim ago">{clock(entry.at)}</span></td>
      <td>{visible(entry.who)}</td>
      <td>{entry.action}</td>
      <td>{visible(entry.on)}</td>
      <td class="n">
        {entry.phase === "done" ? (entry.matched === undefined ? "" : count(entry.matched)) : (
          <span class={entry.phase === "failed" ? "bad-text" : "warn-text"} title={words.means[entry.phase]}>{entry.error ? visible(entry.error) : words.phase[entry.phase]}</span>
        )}
      </td>
    </tr>
  );
}
