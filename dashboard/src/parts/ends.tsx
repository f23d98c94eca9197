// The jobs of a queue that ended last: also those of which nothing else is kept.
import { useState } from "preact/hooks";
import { ends } from "../api/client";
import { useRead } from "../app/query";
import { toJob } from "../app/route";
import { useWords } from "../words";
import { visible } from "./payload";
import { Panel, StateTag, When, idTail } from "./small";

const SHOWN = 8;

export function Ends({ queue }: { queue: string }) {
  const words = useWords();
  const [all, setAll] = useState(false);
  const read = useRead(`ends ${queue}`, (stop) => ends(queue, stop), { every: 15_000, on: (change) => change.queue === queue, atMost: 1_000 });
  const found = read.data ?? [];
  if (!found.length) return null;
  const shown = all ? found : found.slice(0, SHOWN);
  return (
    <Panel class="ends" title={words.ends.title} hint={words.ends.hint(found.length)} side={found.length > SHOWN ? <button class="plain link" onClick={() => setAll(!all)}>{all ? words.ends.fewer : words.ends.all(found.length)}</button> : undefined}>
      <ul>
        {shown.map((end) => (
          <li key={`${end.id}${end.at}`} data-id={end.id}>
            <a class="id" href={toJob(end.id)} title={end.id}>…{idTail(end.id)}</a> <StateTag state={end.state} /> <span class="cut">{visible(end.kind)}</span> <span class="dim"><When at={end.at} /></span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
