// What the gateway said of itself and of our token; read once in a while for the whole page.
import { store } from "./store";
import type { Info } from "../api/types";

export const known = store<Info | null>(null);

/** Without an answer yet nothing is hidden: the gateway refuses what is not allowed. */
export const may = (info: Info | null, scope: "admin" | "enqueue" | "read") => !info || info.scopes.includes(scope) || info.scopes.includes("admin");
