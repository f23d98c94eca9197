// One schedule: its next runs by the clock of its zone, its last ones, and what may be done with
// it.
import { useState } from "preact/hooks";
import { list, resumeSchedule, runSchedule, schedule as getSchedule, skipSchedule } from "../api/client";
import type { Job, Schedule } from "../api/types";
import { known, may } from "../app/access";
import { useKeys } from "../app/keys";
import { useRead } from "../app/query";
import { toJob, toQueue } from "../app/route";
import { useStore } from "../app/store";
import { clock } from "../model/time";
import { exceptText, inUtc, inZone, patternText } from "../model/schedule";
import { notify } from "../parts/dialog";
import { Heading } from "../parts/heading";
import { Payload, visible } from "../parts/payload";
import { Backfill, Pause, Remove, Standing } from "../parts/scheduleacts";
import { Failure, Panel, StateTag, When, count, shortId } from "../parts/small";
import { useWords } from "../words";

type Doing = "pause" | "backfill" | "remove";
/** The jobs of the queue and kind that are looked through for runs of this schedule. */
const EXAMINED_MAX = 1_000;

export function SchedulePage({ name }: { name: string }) {
  const words = useWords();
  const say = words.schedules;
  const access = useStore(known);
  const [doing, setDoing] = useState<Doing | null>(null);
  const read = useRead(`schedule ${name}`, (stop) => getSchedule(name, stop), { every: 3_000 });
  useKeys({ r: () => read.again(), Escape: () => history.back() }, doing === null);
  const isGone = read.error?.status === 404;
  if (!read.data) {
    if (isGone) return <><header class="title"><Heading name={name} /></header><p class="empty">{say.missing}</p></>;
    return read.error ? <Failure error={read.error} again={read.again} /> : <p class="empty">{words.list.loading}</p>;
  }
  const found = read.data;
  const { schedule: of } = found;
  const close = () => (setDoing(null), read.again());
  const atOnce = async (act: () => Promise<string>) => {
    try {
      notify({ text: `${name}: ${await act()}` });
    } catch (error) {
      notify({ text: (error as Error).message, bad: true });
    }
    read.again();
  };
  const run = () => atOnce(async () => {
    const { verdict, holder } = await runSchedule(name);
    return verdict === "created" ? say.ran : `${words.verdict[verdict] ?? verdict}${holder ? ` ${shortId(holder)}` : ""}`;
  });
  const skip = () => atOnce(() => skipSchedule(name).then(() => say.skippedNext));
  const resume = () => atOnce(() => resumeSchedule(name).then(() => say.resumed));
  return (
    <>
      <header class="title">
        <Heading name={name} />
        <Standing of={found} />
        <code>{visible(patternText(found))}</code>
        <span class="actions">
          {may(access, "admin") && !isGone ? (
            <>
              {of.paused ? <button data-action="resume" class="main" onClick={resume}>{say.resume}</button> : <button data-action="pause" disabled={found.ended} onClick={() => setDoing("pause")}>{say.pause}</button>}
              <button data-action="run" onClick={run}>{say.run}</button>
              <button data-action="skip" disabled={found.next.length === 0} onClick={skip}>{say.skip}</button>
              <button data-action="backfill" onClick={() => setDoing("backfill")}>{say.backfill}</button>
              <button data-action="remove" class="danger" onClick={() => setDoing("remove")}>{say.remove}</button>
            </>
          ) : null}
        </span>
      </header>
      {isGone ? <div class="note warn" role="alert">{say.missing}</div> : read.error ? <Failure error={read.error} again={read.again} /> : null}
      {of.paused ? <div class="note warn" role="status">{say.pausedNote}{of.note ? ` ${visible(of.note)}` : ""}</div> : found.dry ? <div class="note bad" role="status">{say.dryMeans}</div> : found.overdue_since ? <div class="note bad" role="status">{say.overdueMeans(clock(found.overdue_since))}</div> : null}
      <div class="columns">
        <div>
          <NextRuns schedule={found} />
          <LastRuns schedule={found} />
          <Panel title={words.job.payload}><Payload text={JSON.stringify(of.job.payload ?? null)} base64={of.job.payload_base64 ?? undefined} /></Panel>
        </div>
        <Facts schedule={found} />
      </div>
      {doing === "pause" ? <Pause name={name} close={close} /> : null}
      {doing === "backfill" ? <Backfill name={name} zone={of.zone ?? "UTC"} close={close} /> : null}
      {doing === "remove" ? <Remove name={name} close={() => setDoing(null)} /> : null}
    </>
  );
}

function NextRuns({ schedule: { schedule: of, next, pending, lasts_until: until } }: { schedule: Schedule }) {
  const { schedules: say } = useWords();
  const zone = of.zone ?? "UTC";
  return (
    <Panel title={say.nextRuns} hint={until ? say.lastsUntil(clock(until)) : ""}>
      {next.length ? (
        <table class="grid-table">
          <thead><tr><th>{say.inZone(zone)}</th>{zone === "UTC" ? null : <th>UTC</th>}<th>{say.here}</th><th /></tr></thead>
          <tbody>
            {next.map((at, n) => (
              <tr key={at}>
                <td>{inZone(at, zone)}</td>{zone === "UTC" ? null : <td class="dim">{inUtc(at)}</td>}<td class="dim">{clock(at)}</td>
                <td class="n"><When at={at} /> {n === 0 && pending ? <a href={toJob(pending)}>{say.job}</a> : null}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : <p class="empty">{say.noNext}</p>}
    </Panel>
  );
}

/** The jobs of this schedule that are kept: those that wait, run, or are retained. */
async function runsOf({ name, schedule: { job } }: Schedule, stop: AbortSignal): Promise<Job[]> {
  const { jobs } = await list({ queue: job.queue, ...(job.kind && { kind: job.kind }) }, { limit: EXAMINED_MAX }, stop);
  return jobs.filter((one) => one.schedule?.name === name && one.state !== "scheduled").sort((a, b) => (a.schedule!.at < b.schedule!.at ? 1 : -1));
}

function LastRuns({ schedule }: { schedule: Schedule }) {
  const words = useWords();
  const { schedules: say } = words;
  const read = useRead(`runs ${schedule.name} ${schedule.last?.id ?? ""}`, (stop) => runsOf(schedule, stop), { every: 5_000 });
  const runs = read.data ?? [];
  return (
    <Panel title={say.lastRuns} hint={say.keptMeans}>
      {schedule.last ? <p>{say.last}: {inZone(schedule.last.at, schedule.schedule.zone ?? "UTC")} <span class="dim"><When at={schedule.last.at} /></span> <a href={toJob(schedule.last.id)}>{say.job}</a></p> : null}
      {runs.length ? (
        <table class="grid-table">
          <tbody>
            {runs.slice(0, 50).map((job) => (
              <tr key={job.id}><td><StateTag state={job.state} /></td><td>{inUtc(job.schedule!.at)}</td><td class="dim">{job.last_error ? visible(job.last_error.split("\n")[0]!) : (words.why[job.cancelled ?? ""] ?? "")}</td><td class="n"><a href={toJob(job.id)}><code>{shortId(job.id)}</code></a></td></tr>
            ))}
          </tbody>
        </table>
      ) : schedule.last ? null : <p class="empty">{say.noRuns}</p>}
    </Panel>
  );
}

function Facts({ schedule }: { schedule: Schedule }) {
  const { schedules: say, field } = useWords();
  const { schedule: of, fired, skipped, missed, last_success: success } = schedule;
  const policy = (name?: string | null) => (name ? (say.policy[name] ?? name) : undefined);
  const facts: [string, string | undefined][] = [
    [say.when, patternText(schedule)],
    [say.except, exceptText(schedule) || undefined],
    [say.zone, of.zone ?? "UTC"],
    [say.before, of.before ?? undefined],
    [say.jitter, of.jitter ?? undefined],
    [say.start, of.start ? clock(of.start) : undefined],
    [say.end, of.end ? clock(of.end) : undefined],
    [say.maxRuns, of.max_runs ? count(of.max_runs) : undefined],
    [say.overlap, policy(of.overlap)],
    [say.missedRuns, of.missed === "all" && of.missed_max ? `${policy(of.missed)}, ${of.missed_max}` : policy(of.missed)],
    [say.grace, of.grace ?? undefined],
    [say.pauseOnFailure, of.pause_on_failure ? say.yes : undefined],
    [say.expectWithin, of.expect_within ?? undefined],
    [say.lastSuccess, success ? clock(success.finished_at) : undefined],
    [field.kind!, of.job.kind ?? undefined],
    [say.fired, count(fired)],
    [say.skipped, count(skipped)],
    [say.missed, count(missed)],
  ];
  return (
    <Panel title={say.facts}>
      <dl class="fields">
        <div><dt>{say.queue}</dt><dd><a href={toQueue(of.job.queue)}>{visible(of.job.queue)}</a></dd></div>
        {facts.map(([name, value]) => value === undefined ? null : <div key={name}><dt>{name}</dt><dd>{visible(value)}</dd></div>)}
      </dl>
    </Panel>
  );
}
