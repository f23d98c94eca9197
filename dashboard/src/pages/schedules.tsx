// All schedules: what they enqueue, when next, and how they stand.
import { useState } from "preact/hooks";
import { SCHEDULES_MAX, schedules } from "../api/client";
import type { Schedule } from "../api/types";
import { known } from "../app/access";
import { useKeys } from "../app/keys";
import { useRead } from "../app/query";
import { toQueue, toSchedule } from "../app/route";
import { useStore } from "../app/store";
import { inUtc, inZone, patternText, standing } from "../model/schedule";
import { Heading } from "../parts/heading";
import { visible } from "../parts/payload";
import { Standing } from "../parts/scheduleacts";
import { Failure, When, count } from "../parts/small";
import { useWords } from "../words";

export function SchedulesPage() {
  const words = useWords();
  const say = words.schedules;
  const about = useStore(known);
  const [text, setText] = useState("");
  const [after, setAfter] = useState<string[]>([]);
  const read = useRead(`schedules ${after.at(-1) ?? ""}`, (stop) => schedules(after.at(-1) ?? "", stop), { every: 5_000 });
  useKeys({ r: () => read.again() });
  const all = read.data?.schedules ?? [];
  const wanted = text.toLowerCase();
  const shown = all.filter((one) => `${one.name} ${one.schedule.job.queue} ${patternText(one)} ${one.schedule.note ?? ""} ${say.standing[standing(one)]}`.toLowerCase().includes(wanted));
  const next = read.data?.next;
  const lacks = about?.capabilities !== undefined && !about.capabilities.includes("schedules");
  return (
    <>
      <header class="title">
        <Heading name={say.title} />
        <span class="dim">{say.text}</span>
        <span class="actions"><input type="search" class="small" placeholder={say.filter} aria-label={say.filter} value={text} onInput={(event) => setText(event.currentTarget.value)} /></span>
      </header>
      {lacks ? <p class="empty">{say.unsupported}</p> : read.error ? <Failure error={read.error} again={read.again} /> : null}
      {read.data ? (
        <section class="panel wide-table">
          {shown.length ? (
            <table class="grid-table schedules">
              <thead><tr><th>{say.name}</th><th>{say.when}</th><th>{say.queue}</th><th>{say.next}</th><th>{say.last}</th><th class="n">{say.fired}</th><th class="n">{say.skipped}</th><th class="n">{say.missed}</th></tr></thead>
              <tbody>{shown.map((one) => <Row key={one.name} schedule={one} />)}</tbody>
            </table>
          ) : <p class="empty">{all.length ? say.noMatch : <>{say.none} <code>{say.example}</code></>}</p>}
          {next || after.length ? (
            <p class="buttons-row">
              {after.length ? <button onClick={() => setAfter(after.slice(0, -1))}>{say.previousPage}</button> : null}
              {next ? <button onClick={() => setAfter([...after, next])}>{say.nextPage(SCHEDULES_MAX)}</button> : null}
            </p>
          ) : null}
        </section>
      ) : read.error || lacks ? null : <p class="empty">{words.list.loading}</p>}
    </>
  );
}

function Row({ schedule }: { schedule: Schedule }) {
  const { name, schedule: of, next, last, fired, skipped, missed } = schedule;
  const zone = of.zone ?? "UTC";
  return (
    <tr data-schedule={name} data-standing={standing(schedule)}>
      <td><a href={toSchedule(name)}>{visible(name)}</a> <Standing of={schedule} /></td>
      <td><code>{visible(patternText(schedule))}</code> <span class="dim">{zone === "UTC" ? "" : zone}</span></td>
      <td><a href={toQueue(of.job.queue)}>{visible(of.job.queue)}</a></td>
      <td>{next[0] && !of.paused ? <><span title={inUtc(next[0])}>{inZone(next[0], zone)}</span> <span class="dim"><When at={next[0]} /></span></> : ""}</td>
      <td class="dim"><When at={last?.at} /></td>
      <td class="n">{count(fired)}</td>
      <td class="n">{skipped ? count(skipped) : ""}</td>
      <td class="n">{missed ? <span class="warn-text">{count(missed)}</span> : ""}</td>
    </tr>
  );
}
