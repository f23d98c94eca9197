// What may be done with a flow, each in its dialog: cancel, retry, retry from a step, recount.
import { useState } from "preact/hooks";
import { cancelFlow, recountFlow, retryFlow } from "../api/client";
import type { Flow, Retried } from "../api/types";
import { useRead } from "../app/query";
import { PARTS } from "../model/flow";
import { type Words, useWords } from "../words";
import { Dialog, notify } from "./dialog";
import { visible } from "./payload";
import { Failure, count, errorText } from "./small";

interface AskProps {
  title: string;
  means: string;
  many?: string;
  doIt: string;
  danger?: boolean;
  /** Does it and says what it did. */
  act(): Promise<string>;
  close(): void;
}

function Ask({ title, means, many, doIt, danger, act, close }: AskProps) {
  const words = useWords();
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    setError(null);
    try {
      notify({ text: await act() });
      close();
    } catch (failure) {
      setError(errorText(failure));
      setBusy(false);
    }
  };
  return (
    <Dialog title={title} close={close}>
      <p>{means}</p>
      {many ? <p class="scope">{many}</p> : null}
      {error ? <p class="bad-text" role="alert">{error}</p> : null}
      <footer><button onClick={close}>{words.bulk.cancel}</button><button class={danger ? "danger" : "main"} disabled={busy} onClick={run}>{doIt}</button></footer>
    </Dialog>
  );
}

export function Cancel({ flow: { name, counts }, close }: { flow: Flow; close(): void }) {
  const { flows: say } = useWords();
  const act = async () => (await cancelFlow(name), `${visible(name)}: ${say.cancelled}`);
  return <Ask title={say.cancelTitle(visible(name))} means={say.cancelMeans} many={say.cancelMany(counts.open)} doIt={say.cancelDo} danger act={act} close={close} />;
}

/** How many steps run again, and which ones could not. */
function retriedText({ retried, gone, gone_steps: names, unique_held: held, unique_held_steps: holders }: Retried, say: Words["flows"]) {
  const parts = [say.retried(retried)];
  if (gone) parts.push(say.gone(gone, visible(names.join(", "))));
  if (held) parts.push(say.held(held, visible(holders.map(({ step, holder }) => `${step} (${holder})`).join(", "))));
  return parts.join(". ");
}

export function Retry({ flow: { name, counts }, close }: { flow: Flow; close(): void }) {
  const { flows: say } = useWords();
  const act = async () => `${visible(name)}: ${retriedText(await retryFlow(name), say)}`;
  return <Ask title={say.retryTitle(visible(name))} means={say.retryMeans} many={say.retryMany(counts.dead, counts.cancelled)} doIt={say.retryDo} act={act} close={close} />;
}

export function RetryFrom({ flow: { name }, step, close }: { flow: Flow; step: string; close(): void }) {
  const { flows: say } = useWords();
  const act = async () => `${visible(name)}: ${retriedText(await retryFlow(name, step), say)}`;
  return <Ask title={say.retryFromTitle(visible(step))} means={say.retryFromMeans} doIt={say.retryDo} act={act} close={close} />;
}

const ROWS = ["steps", ...PARTS] as const;

export function Recounted({ name, close }: { name: string; close(): void }) {
  const words = useWords();
  const say = words.flows;
  const read = useRead(`recount ${name}`, () => recountFlow(name));
  const answer = read.data;
  return (
    <Dialog title={say.recountTitle(visible(name))} close={close}>
      <p>{say.recountMeans}</p>
      {read.error ? <Failure error={read.error} again={read.again} /> : null}
      {answer ? (
        <>
          <p class={`note ${answer.agrees ? "ok" : answer.moved ? "warn" : "bad"}`} role="status" data-agrees={answer.agrees}>{answer.agrees ? say.agrees : answer.moved ? say.moved : say.differs}</p>
          <table class="grid-table">
            <thead><tr><th /><th class="n">{say.byJobs}</th><th class="n">{say.byFlow}</th></tr></thead>
            <tbody>{ROWS.map((row) => <tr key={row}><td>{row === "steps" ? say.steps : say.part[row]}</td><td class="n">{count(answer.counted[row])}</td><td class={answer.counted[row] === answer.kept[row] ? "n" : "n bad-text"}>{count(answer.kept[row])}</td></tr>)}</tbody>
          </table>
          {answer.differ.length ? <p>{say.differAt} {answer.differ.slice(0, 20).map(visible).join(", ")}{answer.differ.length > 20 ? ` +${count(answer.differ.length - 20)}` : ""}</p> : null}
        </>
      ) : read.error ? null : <p class="empty">{words.list.loading}</p>}
      <footer><button onClick={() => read.again()}>{say.again}</button><button class="main" onClick={close}>{words.bulk.close}</button></footer>
    </Dialog>
  );
}
