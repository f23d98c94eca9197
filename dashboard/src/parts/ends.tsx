// The jobs of a queue that ended last: also those of which nothing else is kept.
import { ends } from "../api/client";
import { useRead } from "../app/query";
import { toJob } from "../app/route";
import { useWords } from "../words";
import { visible } from "./payload";
import { Failure, Panel, StateTag, When, idTail } from "./small";

export function Ends({ queue }: { queue: string }) {
  const words = useWords();
  const read = useRead(`ends ${queue}`, (stop) => ends(queue, stop), { every: 15_000, on: (change) => change.queue === queue, atMost: 1_000 });
  const found = read.data ?? [];
  if (!read.data) return read.error && read.error.code !== "unsupported" ? <Failure error={read.error} again={read.again} /> : <p class="empty">{read.error ? words.ends.none : words.list.loading}</p>;
  return (
    <Panel class="ends" title={words.ends.title} hint={words.ends.hint(found.length)}>
      <ul>
        {found.map((end) => (
          <li key={`${end.id}${end.at}`} data-id={end.id}>
            <a class="id" href={toJob(end.id)} title={end.id}>…{idTail(end.id)}</a> <StateTag state={end.state} /> <span class="cut">{visible(end.kind)}</span> <span class="dim"><When at={end.at} /></span>
          </li>
        ))}
      </ul>
      {found.length ? null : <p class="empty">{words.ends.none}</p>}
    </Panel>
  );
}
