// Dialogs of a named limit: its settings, and a block for a while.
import { useState } from "preact/hooks";
import { blockNamedLimit, removeNamedLimit, setNamedLimit } from "../api/client";
import type { NamedLimit } from "../api/types";
import { checkLimits, formOf, isLimitName, limitsOf, WHEN_FULL, type WhenFull, withWhenFull } from "../model/limits";
import { readSpan } from "../model/time";
import { useWords } from "../words";
import { Dialog, useWrite } from "./dialog";
import { LimitFields, NO_LIMITS } from "./limits";
import { visible } from "./payload";

/** Sets a limit: that one, or without one a new name. */
export function NamedLimitEdit({ of, close }: { of: NamedLimit | null; close(): void }) {
  const words = useWords();
  const say = words.namedLimits;
  const [name, setName] = useState(of?.name ?? "");
  const [form, setForm] = useState(of ? formOf(of) : NO_LIMITS);
  const [whenFull, setWhenFull] = useState<WhenFull>(of?.when_full ?? "wait");
  const { error, busy, write } = useWrite(close);
  const wrong = checkLimits(form);
  const wanted = withWhenFull(limitsOf(form), whenFull);
  const isGood = isLimitName(name) && wanted !== null && !Object.keys(wrong).length;
  const ownSettings = of?.set_by === of?.name ? of : null;
  const save = (event: Event) => {
    event.preventDefault();
    if (isGood) void write(() => setNamedLimit(name, wanted), `${visible(name)}: ${words.limits.saved}`);
  };
  return (
    <Dialog title={of ? words.limits.title(visible(of.name)) : say.make} close={close}>
      <form class="settings" onSubmit={save}>
        {of ? null : (
          <label class="field">
            <span>{say.name}</span>
            <input name="name" required autocomplete="off" placeholder="smtp:gmail.com" value={name} aria-invalid={name !== "" && !isLimitName(name)} onInput={(event) => setName(event.currentTarget.value.trim())} />
            <small class={name && !isLimitName(name) ? "bad-text" : "dim"}>{say.nameMeans}</small>
          </label>
        )}
        {of?.set_by && !ownSettings ? <p class="note" role="status">{say.ofFamily(visible(of.set_by), visible(of.name))}</p> : null}
        <LimitFields form={form} wrong={wrong} enabled change={setForm} />
        <label class="field">
          <span>{say.whenFull}</span>
          <select name="when_full" value={whenFull} disabled={!form.concurrency} onChange={(event) => setWhenFull(event.currentTarget.value as WhenFull)}>
            {WHEN_FULL.map((one) => <option key={one} value={one}>{say.whenFullOf[one]}</option>)}
          </select>
          <small class="dim">{say.whenFullMeans}</small>
        </label>
        {error ? <p class="bad-text" role="alert">{error}</p> : null}
        <footer>
          {ownSettings ? <button type="button" class="danger" data-action="remove-limit" disabled={busy} onClick={() => write(() => removeNamedLimit(ownSettings.name), `${visible(ownSettings.name)}: ${words.limits.removed}`)}>{words.limits.remove}</button> : null}
          <button type="button" onClick={close}>{words.bulk.cancel}</button>
          <button class="main" type="submit" disabled={!isGood || busy}>{words.settings.save}</button>
        </footer>
      </form>
    </Dialog>
  );
}

/** Starts no job with the limit for a while. */
export function BlockEdit({ of, close }: { of: NamedLimit; close(): void }) {
  const words = useWords();
  const say = words.namedLimits;
  const [span, setSpan] = useState("1m");
  const { error, busy, write } = useWrite(close);
  const isGood = (readSpan(span) ?? 0) > 0;
  const save = (event: Event) => {
    event.preventDefault();
    if (isGood) void write(() => blockNamedLimit(of.name, span.replaceAll(" ", "")), `${visible(of.name)}: ${say.blocked(span)}`);
  };
  return (
    <Dialog title={say.blockTitle(visible(of.name))} close={close}>
      <form class="settings" onSubmit={save}>
        <p class="dim">{say.blockMeans}</p>
        <label class="field">
          <span>{say.span}</span>
          <input name="span" required autocomplete="off" value={span} aria-invalid={!isGood} onInput={(event) => setSpan(event.currentTarget.value.trim())} />
          <small class={isGood ? "dim" : "bad-text"}>{say.spanMeans}</small>
        </label>
        {error ? <p class="bad-text" role="alert">{error}</p> : null}
        <footer>
          {of.closed === "blocked" ? <button type="button" data-action="unblock" disabled={busy} onClick={() => write(() => blockNamedLimit(of.name, "0s"), `${visible(of.name)}: ${say.unblocked}`)}>{say.unblock}</button> : null}
          <button type="button" onClick={close}>{words.bulk.cancel}</button>
          <button class="main" type="submit" disabled={!isGood || busy}>{say.block}</button>
        </footer>
      </form>
    </Dialog>
  );
}
