// The dialog of an edit: what it means, what a dry run counts, the edit itself, and its undo.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Action, Simple } from "../api/types";
import { COPIES_MAX, type Scope, type Tally, UNDO_MAX, type Undo, prepareUndo, run } from "../model/bulk";
import { readInstant, readSpan } from "../model/time";
import { useWords, type Words } from "../words";
import { Dialog, notify } from "./dialog";
import { StateTag, count } from "./small";

export type ActionName = Simple | "reschedule" | "reprioritise";

interface Props {
  name: ActionName;
  scope: Scope;
  close(): void;
  /** Called once something was changed. */
  changed(): void;
}

export function Bulk({ name, scope, close, changed }: Props) {
  const words = useWords();
  const [value, setValue] = useState(name === "reprioritise" ? "5" : "10m");
  // `-30m` and `now` are read once: counted and done is the same instant.
  const action = useMemo(() => toAction(name, value), [name, value]);
  const key = JSON.stringify(action);
  // What was counted for another value says nothing of this one.
  const [counted, setCounted] = useState<{ key: string; tally: Tally } | null>(null);
  const dry = counted?.key === key ? counted.tally : null;
  const [wet, setWet] = useState<Tally | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [stopped, setStopped] = useState(false);
  const stop = useRef(new AbortController());

  useEffect(() => {
    if (!action) return;
    const own = new AbortController();
    const timer = setTimeout(() => {
      setError(null);
      run(action, scope, true, (tally) => setCounted({ key, tally }), own.signal).catch((failure: Error) => own.signal.aborted || setError(failure.message));
    }, name === "reschedule" || name === "reprioritise" ? 300 : 0);
    return () => {
      clearTimeout(timer);
      own.abort();
    };
  }, [key]);
  useEffect(() => () => stop.current.abort(), []);

  const doIt = async () => {
    if (!action || !dry) return;
    const { signal } = stop.current;
    setWet({ examined: 0, changed: 0, verdicts: {}, ids: [], allIds: true, done: false });
    try {
      const undo = await prepareUndo(action, scope, dry, signal);
      const exactly = dry.allIds ? { ids: dry.ids } : scope;
      const done = await run(action, exactly, false, setWet, signal);
      if (done.changed) {
        notify({ text: `${words.bulk.title[name]}: ${words.bulk.done(done.changed)}`, ...(undo && { action: undoAction(undo, words, changed) }) });
        changed();
      }
      if (clean(done)) close();
    } catch (failure) {
      if (signal.aborted) setStopped(true);
      else setError((failure as Error).message);
      changed();
    }
  };

  const clean = (tally: Tally) => tally.done && Object.keys(tally.verdicts).every((verdict) => verdict === "done" || verdict === "cancel_requested");
  const tally = wet ?? dry;
  const title = words.bulk.title[name];
  return (
    <Dialog title={title} close={close}>
      <p>{words.bulk.means[name]}</p>
      <ScopeText scope={scope} words={words} />
      {name === "reschedule" || name === "reprioritise" ? (
        <label class="field">
          <span>{name === "reschedule" ? words.actions.rescheduleTo : words.actions.priorityTo}</span>
          <input
            value={value} autofocus aria-invalid={!action} disabled={wet !== null} onInput={(event) => setValue(event.currentTarget.value)}
            {...(name === "reprioritise" ? { type: "number", min: 0, max: 9 } : { type: "text", spellcheck: false })}
          />
          {action ? null : <small class="bad-text">{words.filter.badInstant}</small>}
        </label>
      ) : null}
      {tally ? <Counted tally={tally} dry={wet === null} words={words} /> : action && !error ? <p class="dim">{words.bulk.counting}</p> : null}
      {stopped ? <p class="warn-text">{words.bulk.stopped}</p> : null}
      {error ? <p class="bad-text" role="alert">{error}</p> : null}
      {dry && !wet ? <p class="dim">{undoText(name, dry, words)}</p> : null}
      <footer>
        <button onClick={close}>{wet ? words.bulk.close : words.bulk.cancel}</button>
        {wet ? (
          wet.done || stopped || error ? null : <button onClick={() => stop.current.abort()}>{words.bulk.stop}</button>
        ) : (
          <button class={name === "delete" || name === "cancel" ? "danger" : "main"} disabled={!dry?.done || !dry.changed} onClick={doIt}>
            {words.bulk.doIt(words.actions[name].replace("…", ""), dry?.changed ?? 0)}
          </button>
        )}
      </footer>
    </Dialog>
  );
}

function toAction(name: ActionName, value: string): Action | null {
  if (name === "reprioritise") return /^[0-9]$/.test(value) ? { reprioritise: Number(value) } : null;
  if (name !== "reschedule") return name;
  if (readSpan(value) !== null) return { reschedule: { delay: value.replaceAll(/\s/g, "") } };
  const at = readInstant(value);
  return at ? { reschedule: { at } } : null;
}

function ScopeText({ scope, words }: { scope: Scope; words: Words }) {
  if ("jobs" in scope) {
    return <p class="scope">{scope.jobs.length === 1 ? <code>{scope.jobs[0]!.id}</code> : `${words.bulk.scope}: ${count(scope.jobs.length)}`}</p>;
  }
  const { state, ...rest } = scope.filter;
  return (
    <p class="scope">
      {words.bulk.filterScope}: {state ? <StateTag state={state} /> : null}{" "}
      {Object.entries(rest).map(([name, value]) => <code key={name}>{name} {value} </code>)}
    </p>
  );
}

function Counted({ tally, dry, words }: { tally: Tally; dry: boolean; words: Words }) {
  const others = Object.entries(tally.verdicts).filter(([verdict]) => verdict !== "done");
  return (
    <div class="counted" aria-live="polite">
      <p>
        <b class="big" data-changed={tally.changed}>{count(tally.changed)}</b> {dry ? (tally.done && !tally.changed ? words.bulk.nothing : words.bulk.would) : words.bulk.done(tally.changed)}
      </p>
      <p class="dim">
        {count(tally.examined)} {words.bulk.examined}
        {others.map(([verdict, times]) => ` · ${count(times)} ${words.verdict[verdict] ?? verdict}`)}
        {tally.done ? "" : " …"}
      </p>
    </div>
  );
}

function undoText(name: ActionName, dry: Tally, words: Words): string {
  if (name === "delete" || !dry.changed) return "";
  if (name === "redrive") return words.bulk.noUndo;
  const max = name === "cancel" ? COPIES_MAX : UNDO_MAX;
  return words.bulk.undoTooMany(max);
}

export function undoAction(undo: Undo, words: Words, changed: () => void) {
  return {
    text: undo.copies ? words.bulk.undoCopies : words.bulk.undo,
    async run() {
      const { back, lost } = await undo.run();
      changed();
      return [words.bulk.undone(back), ...(lost ? [words.bulk.undoLost(lost)] : [])].join("; ");
    },
  };
}
