// What a person chose: language and theme (kept in the browser), and the token (for this tab only).
import { store } from "./store";

export type Language = "en" | "zh";
export type Theme = "auto" | "dark" | "light";

const kept = (key: string) => {
  try {
    return localStorage.getItem(key);
  } catch {
    return null; // a browser that keeps nothing
  }
};
const keep = (key: string, value: string) => {
  try {
    localStorage.setItem(key, value);
  } catch {
    // It lasts as long as the page.
  }
};

const guess = (): Language => (navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en");
const isLanguage = (text: string | null): text is Language => text === "en" || text === "zh";
const isTheme = (text: string | null): text is Theme => text === "auto" || text === "dark" || text === "light";

const firstLanguage = kept("punctual.language");
const firstTheme = kept("punctual.theme");
export const language = store<Language>(isLanguage(firstLanguage) ? firstLanguage : guess());
export const theme = store<Theme>(isTheme(firstTheme) ? firstTheme : "auto");

function show() {
  document.documentElement.lang = language.get() === "zh" ? "zh-CN" : "en";
  document.documentElement.dataset.theme = theme.get();
}
show();
language.watch((value) => (keep("punctual.language", value), show()));
theme.watch((value) => (keep("punctual.theme", value), show()));

/**
 * The token; `serve` prints an address that ends in `#token=...`, which is taken and hidden at
 * once.
 */
export const token = store<string>(takeToken());
token.watch((value) => sessionStorage.setItem("punctual.token", value));

function takeToken(): string {
  const given = /[#&]token=([^&]+)/.exec(location.hash)?.[1];
  if (given === undefined) return sessionStorage.getItem("punctual.token") ?? "";
  const text = decodeURIComponent(given);
  sessionStorage.setItem("punctual.token", text);
  history.replaceState(null, "", `${location.pathname}#/`);
  return text;
}
