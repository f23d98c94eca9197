// Workers, and what each runs now.
import { useState } from "preact/hooks";
import { list } from "../api/client";
import type { Job, WorkerNow } from "../api/types";
import { useRead } from "../app/query";
import { href, toJob, toQueue } from "../app/route";
import { busyOf, freeOf } from "../model/problems";
import { useWords } from "../words";
import { visible } from "./payload";
import { Failure, Panel, When, count, shortId } from "./small";

const QUEUES_SHOWN = 4;
/** Active jobs are found queue by queue. */
const RUNNING_QUEUES_MAX = 20;

export function WorkerTable({ workers, open: first }: { workers: WorkerNow[]; open?: boolean }) {
  const words = useWords();
  const [open, setOpen] = useState<string | null>(first && workers.length === 1 ? workers[0]!.id : null);
  return (
    <Panel class="workers" title={<a href={href(["workers"])}>{words.workers.title}</a>} hint={count(workers.length)}>
      {workers.length ? (
        <div role="table" aria-label={words.workers.title}>
          <div role="row" class="row worker head">
            <span role="columnheader">{words.workers.host}</span>
            <span role="columnheader">{words.workers.slots}</span>
            <span role="columnheader">{words.workers.queues}</span>
            <span role="columnheader">{words.workers.kinds}</span>
            <span role="columnheader">{words.workers.version}</span>
            <span role="columnheader">{words.workers.seen}</span>
          </div>
          {workers.map((worker) => (
            <div key={worker.id} role="rowgroup">
              <div role="row" class="row worker">
                <button class="plain fold" aria-expanded={open === worker.id} title={worker.id} onClick={() => setOpen(open === worker.id ? null : worker.id)}>{visible(worker.host) || worker.id.slice(0, 8)}</button>
                <span class="load" title={`${worker.leased} ${words.workers.leased}`}>
                  <progress max={Math.max(1, worker.slots)} value={busyOf(worker)} class={freeOf(worker) ? "" : "full"} />
                  <span class="n">{busyOf(worker)}/{worker.slots}</span>
                </span>
                <span class="cut">
                  {worker.queues.slice(0, QUEUES_SHOWN).map((queue) => <><a key={queue} href={toQueue(queue)}>{queue}</a> </>)}
                  {worker.queues.length > QUEUES_SHOWN ? <span class="dim" title={worker.queues.slice(0, 50).join(", ")}>{words.workers.moreQueues(worker.queues.length - QUEUES_SHOWN)}</span> : null}
                </span>
                <span class="cut dim" title={worker.kinds.join(", ")}>{worker.kinds.length ? visible(worker.kinds.join(", ")) : words.workers.anyKind}</span>
                <span class="cut dim">{visible(worker.version)}</span>
                <span class="dim"><When at={worker.seen_at} /></span>
              </div>
              {open === worker.id ? <Running worker={worker} /> : null}
            </div>
          ))}
        </div>
      ) : (
        <p class="empty">{words.workers.none}</p>
      )}
    </Panel>
  );
}

async function running(worker: WorkerNow, stop: AbortSignal): Promise<Job[]> {
  const queues = worker.queues.slice(0, RUNNING_QUEUES_MAX);
  const lists = await Promise.all(queues.map((queue) => list({ queue, state: "active" }, {}, stop)));
  return lists.flatMap((one) => one.jobs).filter((job) => job.worker === worker.id);
}

function Running({ worker }: { worker: WorkerNow }) {
  const words = useWords();
  const read = useRead(`running ${worker.id}`, (stop) => running(worker, stop), { every: 5_000, on: (change) => worker.queues.includes(change.queue) });
  if (!read.data) return read.error ? <Failure error={read.error} /> : <p class="empty">{words.list.loading}</p>;
  return (
    <ul class="running">
      {read.data.slice(0, 100).map((job) => (
        <li key={job.id}>
          <a class="id" href={toJob(job.id)}>{shortId(job.id)}</a> <a href={toQueue(job.queue)}>{job.queue}</a> <span>{job.kind}</span> <span class="dim"><When at={job.started_at} /></span>
          {job.cancel_requested ? <span class="badge">{words.job.cancelRequested}</span> : null}
        </li>
      ))}
      {read.data.length ? null : <li class="dim">{words.workers.runsNothing}</li>}
    </ul>
  );
}
