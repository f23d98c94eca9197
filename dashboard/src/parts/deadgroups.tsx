// Dead letters by kind and error: a thousand jobs of one cause are one row.
import { useState } from "preact/hooks";
import { deadGroups } from "../api/client";
import type { DeadGroup } from "../api/types";
import { useRead } from "../app/query";
import { toJob, toJobs, toQueue } from "../app/route";
import { useWords } from "../words";
import { visible } from "./payload";
import { Panel, When, count } from "./small";

const SHOWN = 6;

interface Props {
  /** The queue whose dead letters are grouped; every queue without. */
  queue?: string | undefined;
  kind?: string | undefined;
}

export function DeadGroups({ queue, kind }: Props) {
  const words = useWords();
  const say = words.groups;
  const [all, setAll] = useState(false);
  const read = useRead(`dead ${queue} ${kind}`, (stop) => deadGroups({ queue, kind }, stop), { every: 30_000, on: (change) => change.state === "dead" && (!queue || change.queue === queue), atMost: 5_000 });
  const found = read.data;
  // Where each job is a group of its own the list says the same.
  if (!found || found.examined <= found.groups.length) return null;
  const shown = all ? found.groups : found.groups.slice(0, SHOWN);
  const hint = [found.complete ? "" : say.examined(found.examined), found.others ? words.problems.more(found.others) : ""].filter(Boolean).join(" · ");
  return (
    <Panel class="dead-groups" title={say.title} hint={hint || undefined} side={found.groups.length > SHOWN ? <button class="plain link" onClick={() => setAll(!all)}>{all ? words.ends.fewer : words.ends.all(found.groups.length)}</button> : undefined}>
      <ul>{shown.map((group) => <Group key={`${group.queue} ${group.kind} ${group.error}`} group={group} withQueue={!queue} />)}</ul>
    </Panel>
  );
}

function Group({ group, withQueue }: { group: DeadGroup; withQueue: boolean }) {
  const words = useWords();
  const { queue, kind, search, error } = group;
  return (
    <li data-error={error}>
      <a class="many bad-text" href={toJobs({ queue, state: "dead", kind, error: search })} title={words.groups.show}>{count(group.jobs)}</a>
      <span class="of">{withQueue ? <><a href={toQueue(queue)}>{queue}</a> </> : null}<span class="dim">{visible(kind)}</span></span>
      <a class="error" href={toJobs({ queue, state: "dead", kind, error: search })} title={visible(error)}>{visible(error) || words.groups.noError}</a>
      <span class="dim last"><When at={group.last} /> · <a href={toJob(group.example)}>{words.groups.example}</a></span>
    </li>
  );
}
