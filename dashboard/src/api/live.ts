// The WebSocket of changes: one for the page, with every page's wishes at once. A change is a hint
// to read anew; after a gap or a new connection everything is read anew.
import { store } from "../app/store";
import { token } from "../app/settings";
import { info } from "./client";
import type { Change } from "./types";

export type LiveState = "live" | "connecting" | "lost";
export const liveState = store<LiveState>("connecting");

type Listener = { changes(changes: Change[]): void; resync(): void };
const listeners = new Set<Listener>();

/** The gateway answers pings; without a word for that long the connection counts as lost. */
const SILENCE_MS_MAX = 25_000;
const PING_MS = 10_000;
/** The code by which the gateway closes a socket whose token is not good. */
const NO_TOKEN = 4401;
const BACKOFF_MS_MAX = 15_000;
/** Changes are handed on together, at most that often. */
const COALESCE_MS = 250;
const BUFFER_MAX = 5_000;

let socket: WebSocket | null = null;
let failures = 0;
let silence = 0;
let again = 0;
let buffer: Change[] = [];
let overflow = false;
let flushing = 0;

export function listen(listener: Listener): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

export function connect() {
  clearTimeout(again);
  socket?.close();
  const address = new URL("v1/events", location.href);
  address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
  address.hash = "";
  const own = new WebSocket(address, "punctual.v1");
  socket = own;
  if (liveState.get() === "live") liveState.set("connecting");
  own.onopen = () => {
    own.send(JSON.stringify({ type: "hello", ...(token.get() && { token: token.get() }) }));
    received(own);
  };
  own.onmessage = (event) => own === socket && (received(own), receive(String(event.data)));
  own.onclose = ({ code }) => {
    if (own !== socket) return;
    lost();
    // A request finds out whether it is the token: then the page asks for another.
    if (code === NO_TOKEN) void info().catch(() => {});
  };
}

setInterval(() => socket?.readyState === WebSocket.OPEN && socket.send(JSON.stringify({ type: "ping" })), PING_MS);

function receive(text: string) {
  let message: { type?: string; changes?: Change[] };
  try {
    message = JSON.parse(text);
  } catch {
    return;
  }
  if (message.type === "welcome") {
    failures = 0;
    socket?.send(JSON.stringify({ type: "watch" }));
  } else if (message.type === "watching") {
    // What happens from here on arrives: reading now misses nothing.
    liveState.set("live");
    resync();
  } else if (message.type === "resync") {
    resync();
  } else if (message.type === "jobs") {
    keep(message.changes ?? []);
  }
}

function keep(changes: Change[]) {
  if (buffer.length + changes.length > BUFFER_MAX) overflow = true;
  else buffer.push(...changes);
  flushing ||= window.setTimeout(flush, COALESCE_MS);
}

function flush() {
  flushing = 0;
  const changes = buffer;
  const tooMany = overflow;
  buffer = [];
  overflow = false;
  if (tooMany) resync();
  else for (const listener of [...listeners]) listener.changes(changes);
}

function resync() {
  buffer = [];
  for (const listener of [...listeners]) listener.resync();
}

function received(own: WebSocket) {
  clearTimeout(silence);
  silence = window.setTimeout(() => own === socket && (own.close(), lost()), SILENCE_MS_MAX);
}

function lost() {
  socket = null;
  clearTimeout(silence);
  clearTimeout(again);
  liveState.set("lost");
  failures += 1;
  const wait = Math.min(BACKOFF_MS_MAX, 500 * 2 ** Math.min(failures, 6)) * (0.5 + Math.random() / 2);
  again = window.setTimeout(connect, wait);
}

/** Ends the connection; the page has no right to it until there is another token. */
export function disconnect() {
  const own = socket;
  socket = null;
  clearTimeout(again);
  clearTimeout(silence);
  own?.close();
  liveState.set("lost");
}
