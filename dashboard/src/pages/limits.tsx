// Named limits: how each stands, what it keeps from starting and until when; settings and blocks.
import { useState } from "preact/hooks";
import { NAMED_LIMITS_MAX, namedLimits } from "../api/client";
import type { NamedLimit } from "../api/types";
import { known, may } from "../app/access";
import { useKeys } from "../app/keys";
import { useRead } from "../app/query";
import { useStore } from "../app/store";
import { toJobs } from "../app/route";
import { relative } from "../model/time";
import { Heading } from "../parts/heading";
import { BlockEdit, NamedLimitEdit } from "../parts/namedlimit";
import { visible } from "../parts/payload";
import { Failure, count, useTick } from "../parts/small";
import { useWords } from "../words";

/** The dialog that is open: the settings of a limit, or of a new one, or a block. */
type Open = { act: "edit"; of: NamedLimit | null } | { act: "block"; of: NamedLimit };

export function LimitsPage() {
  const words = useWords();
  const say = words.namedLimits;
  const about = useStore(known);
  const [text, setText] = useState("");
  const [after, setAfter] = useState<string[]>([]);
  const [open, setOpen] = useState<Open | null>(null);
  const read = useRead(`named limits ${after.at(-1) ?? ""}`, (stop) => namedLimits(after.at(-1) ?? "", stop), { every: 2_000 });
  useKeys({ r: () => read.again() });
  const all = read.data?.limits ?? [];
  const shown = all.filter(({ name }) => name.toLowerCase().includes(text.toLowerCase()));
  const next = read.data?.next;
  const lacks = about?.capabilities !== undefined && !about.capabilities.includes("named_limits");
  const isAdmin = may(about, "admin");
  const close = () => {
    setOpen(null);
    read.again();
  };
  return (
    <>
      <header class="title">
        <Heading name={say.title} />
        <span class="dim">{say.text}</span>
        <span class="actions">
          <input type="search" class="small" placeholder={say.filter} aria-label={say.filter} value={text} onInput={(event) => setText(event.currentTarget.value)} />
          {isAdmin && !lacks ? <button data-action="new-limit" onClick={() => setOpen({ act: "edit", of: null })}>{say.make}…</button> : null}
        </span>
      </header>
      {lacks ? <p class="empty">{say.unsupported}</p> : read.error ? <Failure error={read.error} again={read.again} /> : null}
      {read.data && !lacks ? (
        <section class="panel wide-table">
          {shown.length ? (
            <table class="grid-table limits">
              <thead><tr><th>{say.name}</th><th>{say.stands}</th><th class="n">{say.active}</th><th class="n">{say.waiting}</th><th>{say.settings}</th>{isAdmin ? <th /> : null}</tr></thead>
              <tbody>{shown.map((one) => <Row key={one.name} of={one} open={isAdmin ? setOpen : undefined} />)}</tbody>
            </table>
          ) : <p class="empty">{all.length ? say.noMatch : <>{say.none} <code>{say.example}</code></>}</p>}
          {next || after.length ? (
            <p class="buttons-row">
              {after.length ? <button onClick={() => setAfter(after.slice(0, -1))}>{say.previousPage}</button> : null}
              {next ? <button onClick={() => setAfter([...after, next])}>{say.nextPage(NAMED_LIMITS_MAX)}</button> : null}
            </p>
          ) : null}
        </section>
      ) : read.error || lacks ? null : <p class="empty">{words.list.loading}</p>}
      {open?.act === "edit" ? <NamedLimitEdit of={open.of} close={close} /> : open ? <BlockEdit of={open.of} close={close} /> : null}
    </>
  );
}

function Row({ of, open }: { of: NamedLimit; open: ((open: Open) => void) | undefined }) {
  useTick();
  const words = useWords();
  const say = words.namedLimits;
  const { name, active, waiting, closed, opens_at: opens, concurrency, rate, set_by: by } = of;
  const settings = [
    concurrency === undefined ? null : say.atMost(concurrency),
    rate ? words.limits.rate(rate.starts, rate.per, rate.kind === "smooth") : null,
    rate?.burst ? words.limits.burstOf(rate.burst) : null,
    by && by !== name ? say.setBy(visible(by)) : null,
  ].filter(Boolean).join(" · ");
  return (
    <tr data-named-limit={name} data-closed={closed ?? "open"}>
      <td>{visible(name)}</td>
      <td>{closed ? <><b>{say.closed[closed] ?? visible(closed)}</b>{opens ? <span class="dim"> {say.opens(relative(opens, words))}</span> : null}</> : <span class="dim">{say.open}</span>}</td>
      <td class="n">{active ? <a href={toJobs({ limit: name, state: "active" })}>{count(active)}</a> : count(active)}</td>
      <td class="n">{waiting ? <a href={toJobs({ limit: name, state: "ready" })}>{count(waiting)}</a> : ""}</td>
      <td>{settings || <span class="dim">{say.noSettings}</span>}</td>
      {open ? (
        <td class="actions">
          <button class="small" aria-label={`${say.edit} ${name}`} onClick={() => open({ act: "edit", of })}>{say.edit}…</button>{" "}
          <button class="small" aria-label={`${say.block} ${name}`} onClick={() => open({ act: "block", of })}>{say.block}…</button>
        </td>
      ) : null}
    </tr>
  );
}
