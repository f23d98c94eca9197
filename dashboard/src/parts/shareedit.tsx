// A dialog of one share of a queue: its weight, and the limits that each share of the queue has.
import { useLayoutEffect, useState } from "preact/hooks";
import { limits as getLimits, removeLimits, setLimits } from "../api/client";
import { useRead } from "../app/query";
import { formOf, isWeight, limitsOf, sharesOf, withWeight } from "../model/limits";
import { useWords } from "../words";
import { Dialog, useWrite } from "./dialog";
import { useOfEachShare } from "./limits";
import { visible } from "./payload";
import { Failure } from "./small";

export function ShareEdit({ queue, share, close }: { queue: string; share: string; close(): void }) {
  const words = useWords();
  const say = words.shares;
  const read = useRead(`limits ${queue}`, (stop) => getLimits(queue, stop), { every: 2_000 });
  const [weight, setWeight] = useState("1");
  const { error, busy, write } = useWrite(close);
  const now = read.data;
  const ofEach = useOfEachShare(now);
  const isRead = now !== null;
  // Once: what is typed is not written over by a read.
  useLayoutEffect(() => {
    if (now) setWeight(String(now.shares?.weights?.[share] ?? 1));
  }, [isRead]);
  const isGood = isWeight(weight) && ofEach.isGood;
  const set = async () => {
    // Read anew: another person may have changed the limits of the queue meanwhile.
    const fresh = await getLimits(queue);
    const ofQueue = limitsOf(formOf(fresh));
    const shares = sharesOf(ofEach.form, ofEach.pending, withWeight(fresh.shares?.weights ?? {}, share, Number(weight)));
    await (ofQueue || shares ? setLimits(queue, { ...ofQueue, ...(shares && { shares }) }) : removeLimits(queue));
  };
  const save = (event: Event) => {
    event.preventDefault();
    if (isGood && isRead) void write(set, `${say.share} ${visible(share)}: ${say.saved}`);
  };
  return (
    <Dialog title={say.editTitle(visible(share), visible(queue))} close={close}>
      {read.error && !now ? <Failure error={read.error} again={read.again} /> : null}
      <form class="settings" onSubmit={save}>
        <label class="field">
          <span>{say.weightOf(visible(share))}</span>
          <input name="weight" autocomplete="off" inputMode="numeric" value={weight} aria-invalid={!isWeight(weight)} disabled={!isRead} onInput={(event) => setWeight(event.currentTarget.value.trim())} />
          <small class={isWeight(weight) ? "dim" : "bad-text"}>{say.weightMeans}</small>
        </label>
        <fieldset>
          <legend>{say.ofEach(visible(queue))}</legend>
          {ofEach.fields}
        </fieldset>
        {error ? <p class="bad-text" role="alert">{error}</p> : null}
        <footer>
          <button type="button" onClick={close}>{words.bulk.cancel}</button>
          <button class="main" type="submit" disabled={!isRead || !isGood || busy}>{words.settings.save}</button>
        </footer>
      </form>
    </Dialog>
  );
}
