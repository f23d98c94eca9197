// Dialogs and notices.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { store, useStore } from "../app/store";
import { useWords } from "../words";
import { Icon } from "./icons";
import { errorText } from "./small";

interface Props {
  title: string;
  close(): void;
  children: ComponentChildren;
  wide?: boolean;
}

export function Dialog({ title, close, children, wide }: Props) {
  const box = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const own = box.current;
    own?.showModal();
    // Closed before it goes, so that the focus returns to where it was.
    return () => own?.close();
  }, []);
  return (
    <dialog ref={box} class={wide ? "wide" : ""} aria-label={title} onCancel={(event) => (event.preventDefault(), close())} onClick={(event) => event.target === box.current && close()}>
      <div class="inside">
        <h2>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

export interface Notice {
  text: string;
  bad?: boolean;
  action?: { text: string; run(): Promise<string> };
}

interface Shown extends Notice {
  key: number;
}

const notices = store<Shown[]>([]);
/** Time to read, and to undo. */
const SHOWN_MS = 8_000;
const SHOWN_WITH_ACTION_MS = 30_000;
const SHOWN_MAX = 4;
let lastKey = 0;

export function notify(notice: Notice) {
  const key = ++lastKey;
  notices.set([...notices.get(), { ...notice, key }].slice(-SHOWN_MAX));
  setTimeout(() => dismiss(key), notice.action ? SHOWN_WITH_ACTION_MS : SHOWN_MS);
}

const dismiss = (key: number) => notices.set(notices.get().filter((notice) => notice.key !== key));

export function Notices() {
  const words = useWords();
  return (
    <div class="notices" role="status" aria-live="polite">
      {useStore(notices).map(({ key, text, bad, action }) => (
        <div key={key} class={bad ? "notice bad" : "notice"}>
          <span>{text}</span>
          {action ? (
            <button
              onClick={async () => {
                dismiss(key);
                try {
                  notify({ text: await action.run() });
                } catch (error) {
                  notify({ text: String((error as Error).message), bad: true });
                }
              }}
            >
              {action.text}
            </button>
          ) : null}
          <button class="plain" aria-label={words.bulk.close} onClick={() => dismiss(key)}><Icon name="cross" /></button>
        </div>
      ))}
    </div>
  );
}

/** A write that a dialog does: its notice when it is done, its error when it is not. */
export function useWrite(close: () => void) {
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const write = async (act: () => Promise<unknown>, done: string) => {
    setBusy(true);
    setError(null);
    try {
      await act();
      notify({ text: done });
      close();
    } catch (failure) {
      setError(errorText(failure));
      setBusy(false);
    }
  };
  return { error, busy, write };
}
