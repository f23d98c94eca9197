// The page that enqueues a job.

import { useEffect, useState } from "preact/hooks";
import { enqueueText, job as getJob } from "../api/client";
import type { ApiError } from "../api/http";
import type { Job, Receipt } from "../api/types";
import { toJob } from "../app/route";
import { withPayload } from "../model/bulk";
import { withoutParent } from "../model/headers";
import { rawField, whyNotJson } from "../model/json";
import { clock, readInstant, readSpan } from "../model/time";
import { keyText } from "../parts/jobrow";
import { Heading } from "../parts/heading";
import { Failure } from "../parts/small";
import { useWords } from "../words";

const EMPTY = { queue: "", kind: "", payload: "{}", due: "", priority: "", unique: "", policy: "keep", group: "", max_attempts: "", timeout: "", expires: "", retention: "", wait_for: "" };
type Form = typeof EMPTY;
/** What a copy has that no field shows, or only in part. */
const KEPT = ["content_type", "headers", "retry", "max_crashes", "unique", "group", "payload_base64"] as const;
type Kept = Partial<Pick<Job, (typeof KEPT)[number]>>;

export function Enqueue({ params }: { params: URLSearchParams }) {
  const words = useWords();
  const copy = params.get("copy");
  const [form, setForm] = useState<Form>({ ...EMPTY, queue: params.get("queue") ?? "" });
  const [more, setMore] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const [receipt, setReceipt] = useState<Receipt | null>(null);
  const [busy, setBusy] = useState(false);
  const [kept, setKept] = useState<Kept>({});
  const [gone, setGone] = useState(false);

  useEffect(() => {
    if (!copy) return;
    getJob(copy).then(({ job, source }) => {
      if (job.tombstone) return setGone(true);
      setMore(true);
      setKept({ ...Object.fromEntries(KEPT.flatMap((name) => (job[name] === undefined ? [] : [[name, job[name]]]))), headers: withoutParent(job.headers) });
      setForm({
        ...EMPTY, queue: job.queue, kind: job.kind, payload: rawField(source, "payload") ?? "", priority: String(job.priority), group: keyText(job.group) ?? "", unique: keyText(job.unique) ?? "", policy: policyOf(job.unique),
        max_attempts: String(job.max_attempts), timeout: job.timeout ?? "", retention: job.retention === "0s" ? "" : (job.retention ?? ""),
      });
    }, setError);
  }, [copy]);

  const bad = {
    payload: form.payload.trim() !== "" && whyNotJson(form.payload) !== "",
    due: form.due !== "" && readSpan(form.due) === null && readInstant(form.due) === null,
    expires: form.expires !== "" && readInstant(form.expires) === null,
  };
  const ready = !gone && form.queue !== "" && !bad.payload && !bad.due && !bad.expires && !busy;
  const send = async (event: Event) => {
    event.preventDefault();
    if (!ready) return;
    setBusy(true);
    setError(null);
    setReceipt(null);
    try {
      setReceipt(await enqueueText(body(form, kept)));
    } catch (failure) {
      setError(failure as ApiError);
    }
    setBusy(false);
  };
  const field = (name: keyof Form, label: string, hint = "", type = "text") => (
    <label class="field">
      <span>{label}</span>
      <input type={type as "text"} name={name} value={form[name]} placeholder={hint} spellcheck={false} autocomplete="off" aria-invalid={name in bad && bad[name as keyof typeof bad]} onInput={(event) => setForm({ ...form, [name]: event.currentTarget.value })} />
    </label>
  );
  const text = words.enqueue;
  return (
    <section class="panel enqueue">
      <Heading name={text.title} />
      {gone ? <div class="note bad" role="alert">{text.gone}</div> : null}
      <form onSubmit={send}>
        <div class="grid">
          {field("queue", text.queue)}
          {field("kind", text.kind, text.kindHint)}
          {field("due", text.delay, text.delayHint)}
        </div>
        <label class="field">
          <span>{text.payload}</span>
          <textarea name="payload" rows={8} spellcheck={false} aria-invalid={bad.payload} value={form.payload} onInput={(event) => setForm({ ...form, payload: event.currentTarget.value })} />
          {kept.payload_base64 !== undefined && form.payload.trim() === "" ? <small class="dim">{text.binary}</small> : null}
          {bad.payload ? <small class="bad-text">{text.badJson} {whyNotJson(form.payload)}</small> : null}
        </label>
        {more ? (
          <div class="grid">
            {field("priority", text.priority, "5", "number")}
            {field("unique", text.unique)}
            <label class="field">
              <span>{text.policy}</span>
              <select name="policy" value={form.policy} onChange={(event) => setForm({ ...form, policy: event.currentTarget.value })}>
                {(["keep", "replace", "after"] as const).map((policy) => <option key={policy} value={policy}>{text[policy]}</option>)}
              </select>
            </label>
            {field("group", text.group)}
            {field("max_attempts", text.attempts, "20", "number")}
            {field("timeout", text.timeout, "30s")}
            {field("expires", text.expires, words.filter.spanHint)}
            {field("retention", text.retention, "1h")}
            {field("wait_for", text.waitFor, "paid, picked")}
          </div>
        ) : null}
        <p class="buttons-row">
          <button class="main" type="submit" disabled={!ready}>{text.send}</button>
          {more ? null : <button type="button" onClick={() => setMore(true)}>{text.more}</button>}
        </p>
      </form>
      {error ? <Failure error={error} /> : null}
      {receipt ? (
        <div class="note ok" role="status" data-verdict={receipt.verdict}>
          <b>{words.verdict[receipt.verdict] ?? receipt.verdict}</b>. {words.field.due}: {clock(receipt.due)} · <a href={toJob(receipt.holder && receipt.verdict === "merged" ? receipt.holder : receipt.id)}>{text.open}</a> <code>{receipt.id}</code>
          {receipt.durability ? <span class="dim"> {receipt.durability}</span> : null}
        </div>
      ) : null}
    </section>
  );
}


const policyOf = (unique: Job["unique"]) => (typeof unique === "object" && unique.policy) || "keep";

/**
 * The body as sent: fields that were left empty stay away, the payload keeps every byte, and so
 * does what a copy has beside.
 */
function body(form: Form, kept: Kept): string {
  const { unique, group, payload_base64, content_type, ...others } = kept;
  const payload = form.payload.trim() || null;
  const isBinary = payload_base64 !== undefined;
  const sameUnique = form.unique !== "" && form.unique === keyText(unique) && form.policy === policyOf(unique);
  const sameGroup = form.group !== "" && form.group === keyText(group);
  const number = (text: string) => (text === "" ? undefined : Number(text));
  const span = readSpan(form.due);
  const fields = {
    ...others, content_type: isBinary && payload !== null ? undefined : content_type, payload_base64: payload === null ? payload_base64 : undefined,
    queue: form.queue, kind: form.kind || undefined,
    ...(form.due === "" ? {} : span === null ? { at: readInstant(form.due) } : { delay: form.due.replaceAll(/\s/g, "") }),
    priority: number(form.priority), max_attempts: number(form.max_attempts),
    unique: sameUnique ? unique : form.unique ? (form.policy === "keep" ? form.unique : { key: form.unique, policy: form.policy }) : undefined,
    group: sameGroup ? group : form.group || undefined, timeout: form.timeout || undefined, retention: form.retention || undefined,
    expires_at: form.expires ? readInstant(form.expires) : undefined,
    wait_for: form.wait_for ? form.wait_for.split(",").map((name) => name.trim()).filter(Boolean) : undefined,
  };
  return withPayload(fields, payload);
}
