// A dialog of one share of a queue: its weight, and the limits that each share of the queue has.
import { useLayoutEffect, useState } from "preact/hooks";
import { limits as getLimits, removeLimits, setLimits } from "../api/client";
import { useRead } from "../app/query";
import { type LimitsForm, checkLimits, formOf, isPending, isWeight, limitsOf, sharesOf, withWeight } from "../model/limits";
import { useWords } from "../words";
import { Dialog, tell } from "./dialog";
import { LimitFields, NO_LIMITS, PendingField } from "./limits";
import { visible } from "./payload";
import { Failure, errorText } from "./small";

export function ShareEdit({ queue, share, close }: { queue: string; share: string; close(): void }) {
  const words = useWords();
  const say = words.shares;
  const read = useRead(`limits ${queue}`, (stop) => getLimits(queue, stop), { every: 2_000 });
  const [weight, setWeight] = useState("1");
  const [form, setForm] = useState<LimitsForm>(NO_LIMITS);
  const [pending, setPending] = useState("");
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const now = read.data;
  const isRead = now !== null;
  // Once: what is typed is not written over by a read.
  useLayoutEffect(() => {
    if (!now) return;
    setWeight(String(now.shares?.weights?.[share] ?? 1));
    setForm(formOf((now.shares ?? {}) as Parameters<typeof formOf>[0]));
    setPending(String(now.shares?.max_pending ?? ""));
  }, [isRead]);
  const wrong = checkLimits(form);
  const isGood = isWeight(weight) && isPending(pending) && !Object.keys(wrong).length;
  const save = async (event: Event) => {
    event.preventDefault();
    if (!isGood || !isRead) return;
    setBusy(true);
    setError(null);
    try {
      // Read anew: another person may have changed the limits of the queue meanwhile.
      const fresh = await getLimits(queue);
      const ofQueue = limitsOf(formOf(fresh));
      const shares = sharesOf(form, pending, withWeight(fresh.shares?.weights ?? {}, share, Number(weight)));
      await (ofQueue || shares ? setLimits(queue, { ...ofQueue, ...(shares && { shares }) }) : removeLimits(queue));
      tell({ text: `${say.share} ${visible(share)}: ${say.saved}` });
      close();
    } catch (failure) {
      setError(errorText(failure));
      setBusy(false);
    }
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
          <LimitFields form={form} wrong={wrong} enabled={isRead} change={setForm} prefix="share_" />
          <PendingField value={pending} enabled={isRead} change={setPending} />
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
