// Payloads and results: bytes of others, shown as text or as a tree, never as anything that runs.
import { useMemo, useState } from "preact/hooks";
import { type Node, readJson } from "../model/json";
import { useWords } from "../words";
import { Tabs, count } from "./small";

/** Longer text is cut until the reader asks for all of it. */
const TEXT_MAX = 20_000;
const ITEMS_MAX = 200;
/** Control characters, and marks that reverse the direction of text or have no width. */
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** What cannot be seen is written as its number. */
export const visible = (text: string) => text.replace(HIDDEN, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);

export function Payload({ text, base64 }: { text: string | null; base64?: string }) {
  const words = useWords();
  const [view, setView] = useState<"tree" | "text">("tree");
  const [all, setAll] = useState(false);
  const node = useMemo(() => (text === null ? null : readJson(text)), [text]);
  if (base64 !== undefined) {
    const decoded = decode(base64);
    if (decoded === null) {
      return (
        <>
          <p class="dim">{words.job.binary}</p>
          <pre>{base64}</pre>
        </>
      );
    }
    return <pre>{visible(decoded)}</pre>;
  }
  if (text === null) return <p class="dim">{words.job.noPayload}</p>;
  const isTree = node?.kind === "object" || node?.kind === "array";
  const cut = all || text.length <= TEXT_MAX ? text : text.slice(0, TEXT_MAX);
  return (
    <>
      <p class="payload-head">
        {isTree ? <Tabs label={words.job.payload} of={["tree", "text"] as const} name={(one) => words.job[one]} value={view} set={setView} /> : null}
        <span class="dim">{words.job.bytes(new TextEncoder().encode(text).length)}</span>
      </p>
      {isTree && view === "tree" ? <div class="tree"><Branch node={node} source={text} depth={0} /></div> : <pre>{visible(cut)}</pre>}
      {cut !== text && (view === "text" || !isTree) ? <button onClick={() => setAll(true)}>{words.job.bytes(text.length)} …</button> : null}
    </>
  );
}

function decode(base64: string): string | null {
  try {
    const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return text.includes("\u0000") ? null : text;
  } catch {
    return null;
  }
}

function Branch({ node, source, name, depth }: { node: Node; source: string; name?: string; depth: number }) {
  const [open, setOpen] = useState(depth < 3);
  const [shown, setShown] = useState(ITEMS_MAX);
  const label = name === undefined ? null : <span class="name">{visible(name)}: </span>;
  if (node.kind !== "object" && node.kind !== "array") {
    const text = node.kind === "string" ? visible(source.slice(node.start, node.end)) : node.text;
    return <div class="leaf">{label}<span class={`v-${node.kind}`}>{text}</span></div>;
  }
  const items: { name: string; value: Node }[] = node.kind === "object" ? node.entries : node.items.map((value, index) => ({ name: String(index), value }));
  const [left, right] = node.kind === "object" ? "{}" : "[]";
  if (!items.length) return <div class="leaf">{label}{left}{right}</div>;
  return (
    <div>
      <button class="plain fold" aria-expanded={open} onClick={() => setOpen(!open)}>
        {label}{left}{open ? "" : ` ${count(items.length)} ${right}`}
      </button>
      {open ? (
        <div class="twigs">
          {items.slice(0, shown).map((item, index) => <Branch key={index} node={item.value} source={source} name={item.name} depth={depth + 1} />)}
          {items.length > shown ? <button onClick={() => setShown(shown + ITEMS_MAX)}>… {count(items.length - shown)}</button> : null}
        </div>
      ) : null}
      {open ? <div>{right}</div> : null}
    </div>
  );
}
