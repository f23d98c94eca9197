// Another payload for a job that has not started.
import { useState } from "preact/hooks";
import { patchText } from "../api/client";
import type { Job } from "../api/types";
import { withPayload } from "../model/bulk";
import { whyNotJson } from "../model/json";
import { useWords } from "../words";
import { Dialog, notify } from "./dialog";

interface Props {
  job: Job;
  /** The payload as it is now, byte for byte; null if it is no JSON. */
  text: string | null;
  close(): void;
  changed(): void;
}

export function PayloadEdit({ job, text, close, changed }: Props) {
  const words = useWords();
  const say = words.payloadEdit;
  const [value, setValue] = useState(text ?? "");
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const wrong = whyNotJson(value);
  const put = (payload: string | null) => patchText(job.id, payload === null ? JSON.stringify({ payload_base64: job.payload_base64 ?? "" }) : withPayload({}, payload));
  const save = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await put(value.trim());
      const back = async () => {
        await put(text);
        changed();
        return words.bulk.undone(1);
      };
      notify({ text: say.saved, action: { text: words.bulk.undo, run: back } });
      changed();
      close();
    } catch (failure) {
      setError((failure as Error).message);
      setBusy(false);
    }
  };
  return (
    <Dialog title={say.title} close={close} wide>
      <form class="settings" onSubmit={save}>
        <p class="dim">{say.means}</p>
        <label class="field">
          <span>{words.enqueue.payload}</span>
          <textarea name="payload" rows={10} spellcheck={false} value={value} aria-invalid={wrong !== ""} onInput={(event) => setValue(event.currentTarget.value)} />
          {wrong ? <small class="bad-text">{words.enqueue.badJson} {wrong}</small> : null}
        </label>
        {error ? <p class="bad-text" role="alert">{error}</p> : null}
        <footer>
          <button type="button" onClick={close}>{words.bulk.cancel}</button>
          <button class="main" type="submit" disabled={wrong !== "" || busy || value.trim() === text}>{say.save}</button>
        </footer>
      </form>
    </Dialog>
  );
}
