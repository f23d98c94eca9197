// The settings of a queue, read, changed and written back if no other person wrote them meanwhile.
import { useLayoutEffect, useState } from "preact/hooks";
import { setSettings, settings } from "../api/client";
import type { QueueSettings } from "../api/types";
import { useRead } from "../app/query";
import { useWords } from "../words";
import { Dialog, notify } from "./dialog";
import { Failure } from "./small";

export function Settings({ queue, close }: { queue: string; close(): void }) {
  const words = useWords();
  const say = words.settings;
  const read = useRead(`edit settings ${queue}`, (stop) => settings(queue, stop));
  const [limit, setLimit] = useState("");
  const [onFull, setOnFull] = useState<QueueSettings["on_full"]>("refuse");
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const version = read.data?.version;
  // Before a field can be typed into: what is typed is not written over by the read.
  useLayoutEffect(() => {
    if (!read.data) return;
    setLimit(read.data.max_pending === undefined ? "" : String(read.data.max_pending));
    setOnFull(read.data.on_full);
  }, [version]);
  const isGood = limit === "" || (/^\d{1,15}$/.test(limit) && Number(limit) > 0);
  const save = async (event: Event) => {
    event.preventDefault();
    if (!read.data || !isGood) return;
    setBusy(true);
    setError(null);
    try {
      const { max_pending: _, ...rest } = read.data;
      await setSettings({ ...rest, on_full: onFull, ...(limit !== "" && { max_pending: Number(limit) }) });
      notify({ text: `${queue}: ${say.saved}` });
      close();
    } catch (failure) {
      // Another person was faster: what that person wrote is shown, with what is to be written
      // beside it.
      setError((failure as Error).message);
      read.again();
      setBusy(false);
    }
  };
  return (
    <Dialog title={say.of(queue)} close={close}>
      {read.error && !read.data ? <Failure error={read.error} again={read.again} /> : null}
      <form class="settings" onSubmit={save}>
        <label class="field">
          <span>{say.limit}</span>
          <input name="max_pending" inputMode="numeric" autocomplete="off" placeholder={words.queue.noLimit} value={limit} aria-invalid={!isGood} disabled={!read.data} onInput={(event) => setLimit(event.currentTarget.value.trim())} />
          <small class={isGood ? "dim" : "bad-text"}>{isGood ? say.limitMeans : say.badLimit}</small>
        </label>
        <label class="field">
          <span>{say.onFull}</span>
          <select name="on_full" value={onFull} disabled={!read.data} onChange={(event) => setOnFull(event.currentTarget.value as QueueSettings["on_full"])}>
            <option value="refuse">{say.refuse}</option>
            <option value="dead_letter_oldest">{say.deadLetterOldest}</option>
          </select>
        </label>
        {error ? <p class="bad-text" role="alert">{error}</p> : null}
        <footer>
          <button type="button" onClick={close}>{words.bulk.cancel}</button>
          <button class="main" type="submit" disabled={!read.data || !isGood || busy}>{say.save}</button>
        </footer>
      </form>
    </Dialog>
  );
}
