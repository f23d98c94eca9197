// One job as one row.
import type { Change, Job } from "../api/types";
import { isSettled } from "../api/types";
import { toJob, toQueue } from "../app/route";
import { useWords } from "../words";
import { visible } from "./payload";
import { Icon } from "./icons";
import { StateTag, When, idTail } from "./small";

interface Props {
  job: Job;
  change: Change | undefined;
  selected: boolean;
  current: boolean;
  withQueue: boolean;
  select(range: boolean): void;
  canSelect: boolean;
}

export const keyText = (key: string | { key: string } | undefined) => (typeof key === "object" ? key.key : key);

/** The one thing that is most worth knowing. */
export function about(job: Job, why: Record<string, string>): { text: string; bad: boolean } {
  const reason = job.dead ?? job.cancelled;
  if (job.last_error && job.state !== "completed") return { text: job.last_error.split("\n")[0] ?? "", bad: job.state === "dead" };
  if (reason) return { text: why[reason] ?? reason, bad: job.state === "dead" };
  if (job.wait_for?.length) return { text: job.wait_for.join(", "), bad: false };
  return { text: "", bad: false };
}

export function JobRow({ job, change, selected, current, withQueue, select, canSelect }: Props) {
  const words = useWords();
  const { text, bad } = about(job, words.why);
  const keys = [["key", keyText(job.unique)], ["group", keyText(job.group)]] as const;
  const moved = change && change.state !== job.state;
  const state = change?.state ?? job.state;
  return (
    <div role="row" class={`row job ${withQueue ? "" : "no-queue"} ${current ? "current" : ""} ${moved ? "moved" : ""}`} aria-selected={selected} data-id={job.id}>
      {canSelect ? (
        <label class="pick">
          <input type="checkbox" aria-label={`${words.list.select} ${job.id}`} checked={selected} onClick={(event) => select(event.shiftKey)} />
        </label>
      ) : (
        <span class="pick" />
      )}
      <a class="id" href={toJob(job.id)} title={job.id}><span class="begin">{job.id.slice(0, 8)}</span>…{idTail(job.id)}</a>
      <span class="what">
        <StateTag state={state} />
      </span>
      {withQueue ? <a class="queue" href={toQueue(job.queue)} title={job.queue}>{job.queue}</a> : null}
      <span class="kind" title={job.kind}>{job.kind}</span>
      <span class="when">
        {isSettled(job.state) ? <When at={job.finished_at} /> : job.state === "active" ? <When at={job.started_at} /> : <When at={job.due} overdue={job.state === "ready"} />}
      </span>
      <span class="tries" title={words.job.attemptOf(job.attempt, job.failures, job.max_attempts)}>
        {job.failures ? <span class={job.state === "dead" ? "bad-text" : "warn-text"}>{job.failures}/{job.max_attempts}</span> : job.attempt || ""}
        {job.crashes ? <span class="bad-text"> <Icon name="crash" label={words.job.crashes(job.crashes)} />{job.crashes}</span> : null}
      </span>
      <span class="about" title={[text, job.preview].filter(Boolean).map((part) => visible(part!.slice(0, 400))).join("\n")}>
        {text ? <span class={bad ? "bad-text" : ""}>{visible(text.slice(0, 300))} </span> : null}
        {keys.map(([name, key]) => key ? <span key={name} class="key-of"><Icon name={name} label={words.field[name === "key" ? "unique" : "group"]} />{visible(key.slice(0, 100))} </span> : null)}
        {job.preview ? <code class="preview">{visible(job.preview)}{(job.payload_bytes ?? 0) > new TextEncoder().encode(job.preview).length ? "…" : ""}</code> : null}
      </span>
    </div>
  );
}
