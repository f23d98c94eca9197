// The largest shares of a queue: how each stands, and buttons that edit, pause or resume one.
import { useState } from "preact/hooks";
import { setSharePaused, SHARES_MAX, shares } from "../api/client";
import type { Share } from "../api/types";
import { known, may } from "../app/access";
import { useRead } from "../app/query";
import { useStore } from "../app/store";
import { relative } from "../model/time";
import { useWords } from "../words";
import { notify } from "./dialog";
import { visible } from "./payload";
import { ShareEdit } from "./shareedit";
import { Failure, Panel, count, errorText, useTick } from "./small";

export function Shares({ queue }: { queue: string }) {
  const words = useWords();
  const say = words.shares;
  const isAdmin = may(useStore(known), "admin");
  const [edited, setEdited] = useState<string | null>(null);
  const read = useRead(`shares ${queue}`, (stop) => shares(queue, stop), { every: 5_000 });
  if (!read.data) return read.error ? <Failure error={read.error} again={read.again} /> : null;
  const found = read.data.shares;
  if (!found.length) return null;
  const pause = async (share: string, paused: boolean) => {
    const [done, undo] = paused ? [words.queue.pause, words.queue.resume] : [words.queue.resume, words.queue.pause];
    const set = async (to: boolean) => {
      await setSharePaused(queue, share, to);
      read.again();
    };
    try {
      await set(paused);
      notify({ text: `${say.share} ${visible(share)}: ${done}`, action: { text: `${words.bulk.undo} (${undo})`, run: async () => (await set(!paused), undo) } });
    } catch (error) {
      notify({ text: errorText(error), bad: true });
    }
  };
  const closeEdit = () => {
    setEdited(null);
    read.again();
  };
  return (
    <Panel class="wide-table shares" title={say.title} hint={found.length < SHARES_MAX ? count(found.length) : say.largest(found.length)}>
      <table class="grid-table">
        <thead><tr><th>{say.share}</th><th>{words.namedLimits.stands}</th><th class="n">{words.state.ready}</th><th class="n">{words.state.active}</th><th class="n">{say.weight}</th>{isAdmin ? <th /> : null}</tr></thead>
        <tbody>{found.map((one) => <Row key={one.share} of={one} acts={isAdmin ? { pause, edit: setEdited } : undefined} />)}</tbody>
      </table>
      {edited === null ? null : <ShareEdit queue={queue} share={edited} close={closeEdit} />}
    </Panel>
  );
}

function Row({ of, acts }: { of: Share; acts: { pause(share: string, paused: boolean): void; edit(share: string): void } | undefined }) {
  useTick();
  const words = useWords();
  const say = words.namedLimits;
  const { share, ready, active, weight, closed, opens_at: opens } = of;
  const isPaused = closed === "paused";
  const act = isPaused ? words.queue.resume : words.queue.pause;
  return (
    <tr data-share={share} data-closed={closed ?? "open"}>
      <td>{visible(share)}</td>
      <td>{closed ? <><b>{say.closed[closed] ?? visible(closed)}</b>{opens ? <span class="dim"> {say.opens(relative(opens, words))}</span> : null}</> : <span class="dim">{say.open}</span>}</td>
      <td class="n">{ready ? count(ready) : ""}</td>
      <td class="n">{active ? count(active) : ""}</td>
      <td class="n">{count(weight)}</td>
      {acts ? (
        <td class="actions">
          <button class="small" aria-label={`${words.shares.edit} ${visible(share)}`} onClick={() => acts.edit(share)}>{words.shares.edit}</button>
          <button class="small" aria-label={`${act} ${visible(share)}`} onClick={() => acts.pause(share, !isPaused)}>{act}</button>
        </td>
      ) : null}
    </tr>
  );
}
