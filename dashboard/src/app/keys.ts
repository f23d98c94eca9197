// One listener for keys; what was registered last is asked first.
import { useLayoutEffect, useRef } from "preact/hooks";

type Keys = Record<string, () => unknown>;
const layers: { current: Keys }[] = [];
let prefix = "";
let prefixTimer = 0;

/** A key pressed within that time after `g` belongs to it. */
const PREFIX_MS = 1_200;

const typing = (target: EventTarget | null) =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) && !(target instanceof HTMLInputElement && target.type === "checkbox");

/** Letters by Shift alone: under Caps Lock `x` shall not do what `X` does. */
const named = ({ key, shiftKey }: KeyboardEvent) => (/^[a-z]$/i.test(key) ? (shiftKey ? key.toUpperCase() : key.toLowerCase()) : key);

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.querySelector("dialog[open]")) return;
  if (typing(event.target)) {
    if (event.key === "Escape") (event.target as HTMLElement).blur();
    return;
  }
  if (event.key === "Enter" && event.target instanceof HTMLElement && /^(A|BUTTON)$/.test(event.target.tagName)) return;
  const key = named(event);
  const name = prefix + key;
  clearTimeout(prefixTimer);
  prefix = "";
  for (const layer of [...layers].reverse()) {
    const found = layer.current[name];
    if (!found) continue;
    event.preventDefault();
    found();
    return;
  }
  if (key === "g") {
    prefix = "g ";
    prefixTimer = window.setTimeout(() => (prefix = ""), PREFIX_MS);
  }
});

export function useKeys(keys: Keys, on = true) {
  const latest = useRef(keys);
  latest.current = keys;
  // With the page that a key is meant for, not some time after it.
  useLayoutEffect(() => {
    if (!on) return;
    layers.push(latest);
    return () => void layers.splice(layers.indexOf(latest), 1);
  }, [on]);
}
