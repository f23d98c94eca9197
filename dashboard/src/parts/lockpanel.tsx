// Who holds a lock, and who waits for it: on the page of its queue.

import { locks } from "../api/client";
import { useRead } from "../app/query";
import { toJob } from "../app/route";
import { useWords } from "../words";
import { visible } from "./payload";
import { Failure, Panel, When, count, shortId } from "./small";

const PREFIX = "lock:";
/** The lock of a queue, if it is the queue of one. */
export const lockOf = (queue: string) => (queue.startsWith(PREFIX) ? queue.slice(PREFIX.length) : null);

export function LockPanel({ name }: { name: string }) {
  const words = useWords();
  const say = words.locks;
  const read = useRead(`lock ${name}`, (stop) => locks(stop), { every: 2_000, on: (change) => change.queue === PREFIX + name });
  if (!read.data) return read.error ? <Failure error={read.error} again={read.again} /> : null;
  const lock = read.data.locks.find((one) => one.name === name);
  const holder = lock?.holder;
  const waiters = lock?.waiters ?? [];
  return (
    <Panel class="lock" title={`${say.title} ${visible(name)}`} hint={count(waiters.length)}>
      {holder ? (
        <p class="lock-holder">
          {say.holder} {holder.job ? <>{say.job} <a class="id" href={toJob(holder.job)}>{shortId(holder.job)}</a> · </> : null}
          {say.ticket} <a class="id" href={toJob(holder.ticket)}>{shortId(holder.ticket)}</a> <span class="dim">{say.since} <When at={holder.since} /></span>
        </p>
      ) : (
        <p class="lock-holder">{say.free}</p>
      )}
      <p>{say.waiting(waiters.length)}</p>
      {waiters.length ? (
        <ul class="running lock-waiters">
          {waiters.slice(0, 100).map((one, at) => (
            <li key={at}>
              <span>{visible(one.host)}</span> {one.job ? <>{say.job} <a class="id" href={toJob(one.job)}>{shortId(one.job)}</a></> : null} <span class="dim"><When at={one.seen_at} /></span>
            </li>
          ))}
        </ul>
      ) : null}
    </Panel>
  );
}
