// The limits of a queue: how they stand, and a dialog that sets them or takes them off.
import { useLayoutEffect, useState } from "preact/hooks";
import { limits as getLimits, removeLimits, setLimits } from "../api/client";
import type { Limits } from "../api/types";
import { known } from "../app/access";
import { useRead } from "../app/query";
import { useStore } from "../app/store";
import { type LimitsForm, checkLimits, formOf, isPending, limitsOf, sharesOf, weightLines, weightsOf } from "../model/limits";
import { relative, span } from "../model/time";
import { useWords } from "../words";
import { Dialog, useWrite } from "./dialog";
import { visible } from "./payload";
import { Failure, useTick } from "./small";

/** The limits of a queue, and until when one of them lets nothing start. */
export function LimitsNow({ limits, active }: { limits: Limits; active: number }) {
  useTick();
  const words = useWords();
  const say = words.limits;
  const { concurrency, rate, closed, opens_at, waits_ms: waits } = limits;
  const parts = [
    concurrency === undefined ? null : say.active(active, concurrency),
    rate ? say.rate(rate.starts, rate.per, rate.kind === "smooth") : null,
    rate?.burst ? say.burstOf(rate.burst) : null,
    closed === "rate" && opens_at ? say.opens(relative(opens_at, words)) : closed ? say.full : null,
    closed && waits ? say.waits(span(waits)) : null,
  ];
  return <span class={`badge ${closed ? "" : "dim"}`} data-limit={closed ?? "open"}>{parts.filter(Boolean).join(" · ")}</span>;
}

export const NO_LIMITS: LimitsForm = { concurrency: "", starts: "", per: "", kind: "window", burst: "" };

export function LimitsEdit({ queue, close }: { queue: string; close(): void }) {
  const words = useWords();
  const say = words.limits;
  const about = useStore(known);
  const lacks = about?.capabilities !== undefined && !about.capabilities.includes("queue_limits");
  const read = useRead(`limits ${queue}`, (stop) => getLimits(queue, stop), { every: 2_000 });
  const [form, setForm] = useState<LimitsForm>(NO_LIMITS);
  const [lines, setLines] = useState("");
  const { error, busy, write } = useWrite(close);
  const now = read.data;
  const ofEach = useOfEachShare(now);
  const isRead = now !== null;
  // Once, and before a field can be typed into: what is typed is not written over by a read.
  useLayoutEffect(() => {
    if (!now) return;
    setForm(formOf(now));
    setLines(weightLines(now.shares?.weights));
  }, [isRead]);
  const [wrong, weights] = [checkLimits(form), weightsOf(lines)];
  const isGood = weights !== null && ofEach.isGood && !Object.keys(wrong).length;
  const shares = sharesOf(ofEach.form, ofEach.pending, weights ?? {});
  const wanted = limitsOf(form) || shares ? { ...limitsOf(form), ...(shares && { shares }) } : null;
  const hasLimits = now?.concurrency !== undefined || now?.rate !== undefined || now?.shares !== undefined;
  const remove = () => write(() => removeLimits(queue), `${visible(queue)}: ${say.removed}`);
  const save = (event: Event) => {
    event.preventDefault();
    if (isGood && isRead) void (wanted ? write(() => setLimits(queue, wanted), `${visible(queue)}: ${say.saved}`) : remove());
  };
  return (
    <Dialog title={say.title(visible(queue))} close={close}>
      {lacks ? <p class="note warn" role="status">{say.unsupported}</p> : read.error && !now ? <Failure error={read.error} again={read.again} /> : null}
      {now && !lacks ? <p>{hasLimits ? <LimitsNow limits={now} active={now.active} /> : <span class="dim">{say.none}</span>}</p> : null}
      <form class="settings" onSubmit={save}>
        <LimitFields form={form} wrong={wrong} enabled={isRead} change={setForm} />
        <details open={shares !== null}>
          <summary>{say.ofEach}</summary>
          {ofEach.fields}
          <label class="field">
            <span>{say.weights}</span>
            <textarea name="weights" rows={3} autocomplete="off" spellcheck={false} value={lines} aria-invalid={weights === null} disabled={!isRead} onInput={(event) => setLines(event.currentTarget.value)} />
            <small class={weights === null ? "bad-text" : "dim"}>{weights === null ? say.badWeights : say.weightsMean}</small>
          </label>
        </details>
        {error ? <p class="bad-text" role="alert">{error}</p> : null}
        <footer>
          {hasLimits ? <button type="button" class="danger" data-action="remove-limits" disabled={busy} onClick={remove}>{say.remove}</button> : null}
          <button type="button" onClick={close}>{words.bulk.cancel}</button>
          <button class="main" type="submit" disabled={!isRead || !isGood || busy || lacks || (!wanted && !hasLimits)}>{words.settings.save}</button>
        </footer>
      </form>
    </Dialog>
  );
}

/** The fields of a concurrency and a rate, as queues and named limits have them. */
export function LimitFields({ form, wrong, enabled, change, prefix = "" }: { form: LimitsForm; wrong: ReturnType<typeof checkLimits>; enabled: boolean; change(form: LimitsForm): void; prefix?: string }) {
  const { limits: say } = useWords();
  const set = (name: keyof LimitsForm, value: string) => change({ ...form, [name]: value });
  const text = (name: Exclude<keyof LimitsForm, "kind">, label: string, hint: string, placeholder: string) => (
    <label class="field">
      <span>{label}</span>
      <input name={prefix + name} autocomplete="off" inputMode={name === "per" ? "text" : "numeric"} placeholder={placeholder} value={form[name]} aria-invalid={wrong[name] !== undefined} disabled={!enabled} onInput={(event) => set(name, event.currentTarget.value.trim())} />
      <small class={wrong[name] ? "bad-text" : "dim"}>{wrong[name] ? say.problem[wrong[name]] : hint}</small>
    </label>
  );
  return (
    <>
      {text("concurrency", say.concurrency, say.concurrencyMeans, say.noLimit)}
      <div class="grid">
        {text("starts", say.starts, say.startsMean, say.noLimit)}
        {text("per", say.per, say.perMeans, "1m")}
      </div>
      <label class="field">
        <span>{say.kind}</span>
        <select name={`${prefix}kind`} value={form.kind} disabled={!enabled} onChange={(event) => set("kind", event.currentTarget.value)}>
          <option value="window">{say.window}</option>
          <option value="smooth">{say.smooth}</option>
        </select>
      </label>
      {form.kind === "smooth" ? text("burst", say.burst, say.burstMeans, say.burstDefault) : null}
    </>
  );
}

/** The limits that each share of a queue has: as they were read once, then as they are typed. */
export function useOfEachShare(now: Awaited<ReturnType<typeof getLimits>> | null) {
  const [form, setForm] = useState<LimitsForm>(NO_LIMITS);
  const [pending, setPending] = useState("");
  const isRead = now !== null;
  useLayoutEffect(() => {
    if (!now) return;
    setForm(formOf((now.shares ?? {}) as Parameters<typeof formOf>[0]));
    setPending(String(now.shares?.max_pending ?? ""));
  }, [isRead]);
  const wrong = checkLimits(form);
  const isGood = isPending(pending) && !Object.keys(wrong).length;
  const fields = (
    <>
      <LimitFields form={form} wrong={wrong} enabled={isRead} change={setForm} prefix="share_" />
      <PendingField value={pending} enabled={isRead} change={setPending} />
    </>
  );
  return { form, pending, isGood, fields };
}

/** How many jobs of one share may wait. */
function PendingField({ value, enabled, change }: { value: string; enabled: boolean; change(value: string): void }) {
  const { limits: say } = useWords();
  const isGood = isPending(value);
  return (
    <label class="field">
      <span>{say.pending}</span>
      <input name="share_max_pending" autocomplete="off" inputMode="numeric" placeholder={say.noLimit} value={value} aria-invalid={!isGood} disabled={!enabled} onInput={(event) => change(event.currentTarget.value.trim())} />
      <small class={isGood ? "dim" : "bad-text"}>{isGood ? say.pendingMeans : say.problem.count}</small>
    </label>
  );
}
