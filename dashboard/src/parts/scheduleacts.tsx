// What may be done with a schedule, each in its dialog; and how it stands, as one word.
import { useState } from "preact/hooks";
import { backfillSchedule, pauseSchedule, removeSchedule } from "../api/client";
import type { Backfilled, Schedule } from "../api/types";
import { go } from "../app/route";
import { inUtc, inZone, standing } from "../model/schedule";
import { readInstant } from "../model/time";
import { useWords } from "../words";
import { Dialog, notify } from "./dialog";
import { visible } from "./payload";
import { count } from "./small";

export function Standing({ of }: { of: Schedule }) {
  const { schedules: say } = useWords();
  const now = standing(of);
  if (now === "on") return null;
  return <span class="badge" title={now === "paused" && of.schedule.note ? visible(of.schedule.note) : say.standingMeans[now]}>{say.standing[now]}</span>;
}

export function Pause({ name, close }: { name: string; close(): void }) {
  const words = useWords();
  const say = words.schedules;
  const [note, setNote] = useState("");
  const [error, setError] = useState<string | null>(null);
  const doIt = async (event: Event) => {
    event.preventDefault();
    try {
      await pauseSchedule(name, note);
      notify({ text: `${name}: ${say.paused}` });
      close();
    } catch (failure) {
      setError((failure as Error).message);
    }
  };
  return (
    <Dialog title={say.pauseTitle(name)} close={close}>
      <p>{say.pauseMeans}</p>
      <form class="settings" onSubmit={doIt}>
        <label class="field"><span>{say.note}</span><input name="note" maxLength={256} autocomplete="off" placeholder={say.noteHint} value={note} onInput={(event) => setNote(event.currentTarget.value)} /></label>
        {error ? <p class="bad-text" role="alert">{error}</p> : null}
        <footer><button type="button" onClick={close}>{words.bulk.cancel}</button><button class="main" type="submit">{say.pauseDo}</button></footer>
      </form>
    </Dialog>
  );
}

export function Remove({ name, close }: { name: string; close(): void }) {
  const words = useWords();
  const say = words.schedules;
  const [error, setError] = useState<string | null>(null);
  const doIt = async () => {
    try {
      await removeSchedule(name);
      notify({ text: `${name}: ${say.removed}` });
      go("#/schedules");
    } catch (failure) {
      setError((failure as Error).message);
    }
  };
  return (
    <Dialog title={say.removeTitle(name)} close={close}>
      <p>{say.removeMeans}</p>
      {error ? <p class="bad-text" role="alert">{error}</p> : null}
      <footer><button onClick={close}>{words.bulk.cancel}</button><button class="danger" onClick={doIt}>{say.removeDo}</button></footer>
    </Dialog>
  );
}

/** The past instants of a span: shown first, enqueued on a second click. */
export function Backfill({ name, zone, close }: { name: string; zone: string; close(): void }) {
  const words = useWords();
  const say = words.schedules;
  const [span, setSpan] = useState({ from: "-1d", to: "now" });
  const [shown, setShown] = useState<Backfilled | null>(null);
  const [error, setError] = useState<string | null>(null);
  const from = readInstant(span.from);
  const to = readInstant(span.to);
  const ask = async (dryRun: boolean) => {
    setError(null);
    try {
      const answer = await backfillSchedule(name, { from: shown?.from ?? from!, to: shown?.to ?? to!, dry_run: dryRun });
      if (dryRun) return setShown({ ...answer, from: from!, to: to! });
      const created = answer.runs.filter(({ verdict }) => verdict === "created").length;
      notify({ text: `${name}: ${say.backfilled(created, answer.runs.length - created)}` });
      close();
    } catch (failure) {
      setError((failure as Error).message);
    }
  };
  const field = (key: "from" | "to", bad: boolean) => (
    <label class="field">
      <span>{say[key]}</span>
      <input name={key} autocomplete="off" value={span[key]} aria-invalid={bad} onInput={(event) => (setShown(null), setSpan({ ...span, [key]: event.currentTarget.value }))} />
      <small class={bad ? "bad-text" : "dim"}>{bad ? words.filter.badInstant : words.filter.spanHint}</small>
    </label>
  );
  return (
    <Dialog title={say.backfillTitle(name)} close={close}>
      <p>{say.backfillMeans}</p>
      <div class="grid">{field("from", from === null)}{field("to", to === null)}</div>
      {shown ? (
        <>
          <p><b class="big">{count(shown.instants.length)}</b> {say.backfillWould}</p>
          <ul class="scope">{shown.instants.slice(0, 8).map((at) => <li key={at}>{inZone(at, zone)} <span class="dim">{inUtc(at)}</span></li>)}{shown.instants.length > 8 ? <li class="dim">{words.problems.more(shown.instants.length - 8)}</li> : null}</ul>
        </>
      ) : null}
      {error ? <p class="bad-text" role="alert">{error}</p> : null}
      <footer>
        <button onClick={close}>{words.bulk.cancel}</button>
        <button class={shown ? "" : "main"} disabled={from === null || to === null || shown !== null} onClick={() => ask(true)}>{say.backfillDry}</button>
        <button class="main" disabled={!shown?.instants.length} onClick={() => ask(false)}>{say.backfillDo(shown?.instants.length ?? 0)}</button>
      </footer>
    </Dialog>
  );
}
