// The page that asks for a token.

import { useEffect, useRef, useState } from "preact/hooks";
import { info } from "../api/client";
import { ApiError, refused } from "../api/http";
import { connect } from "../api/live";
import { known } from "../app/access";
import { token } from "../app/settings";
import { Heading } from "../parts/heading";
import { useWords } from "../words";

export function Login() {
  const { auth } = useWords();
  const why = refused.get();
  // A token that was not looked at may be good later.
  const [value, setValue] = useState(why ? token.get() : "");
  const [wrong, setWrong] = useState<string | null>(why || (token.get() ? auth.wrong : null));
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => box.current?.focus(), []);
  const enter = async (event: Event) => {
    event.preventDefault();
    token.set(value.trim());
    try {
      known.set(await info());
      refused.set(null);
      connect();
    } catch (error) {
      const { status, message, hint } = error instanceof ApiError ? error : { status: 0, message: String(error), hint: "" };
      setWrong(status === 401 ? auth.wrong : [message, hint].filter(Boolean).join("; "));
    }
  };
  return (
    <form class="panel login" onSubmit={enter}>
      <Heading name={auth.title} />
      <p class="dim">{auth.text}</p>
      <label class="field">
        <span>{auth.token}</span>
        <input ref={box} type="password" name="token" autocomplete="off" value={value} onInput={(event) => setValue(event.currentTarget.value)} />
      </label>
      {wrong ? <p class="bad-text" role="alert">{wrong}</p> : null}
      <button class="main" type="submit" disabled={!value.trim()}>{auth.enter}</button>
    </form>
  );
}
