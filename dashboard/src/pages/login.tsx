import { useState } from "preact/hooks";
import { info } from "../api/client";
import { ApiError, refused } from "../api/http";
import { connect } from "../api/live";
import { known } from "../app/access";
import { token } from "../app/settings";
import { useWords } from "../words";

export function Login() {
  const { auth } = useWords();
  const [value, setValue] = useState("");
  const [wrong, setWrong] = useState<string | null>(token.get() ? auth.wrong : null);
  const enter = async (event: Event) => {
    event.preventDefault();
    token.set(value.trim());
    try {
      known.set(await info());
      refused.set(false);
      connect();
    } catch (error) {
      setWrong(error instanceof ApiError && error.status === 401 ? auth.wrong : (error as Error).message);
    }
  };
  return (
    <form class="panel login" onSubmit={enter}>
      <h1>{auth.title}</h1>
      <p class="dim">{auth.text}</p>
      <label class="field">
        <span>{auth.token}</span>
        <input type="password" name="token" autofocus autocomplete="off" value={value} onInput={(event) => setValue(event.currentTarget.value)} />
      </label>
      {wrong ? <p class="bad-text" role="alert">{wrong}</p> : null}
      <button class="main" type="submit" disabled={!value.trim()}>{auth.enter}</button>
    </form>
  );
}
