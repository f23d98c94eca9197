// One door for every request: token, time limit, and one form of error.
import { store } from "../app/store";
import { token } from "../app/settings";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint = "",
    readonly requestId = "",
    /** What the engine said, which only an operator's token receives. */
    readonly said = "",
  ) {
    super(message);
  }
}

/**
 * Why the page asks for a token: ours is not good (empty), or what else the gateway said; null
 * while it need not.
 */
export const refused = store<string | null>(null);
/** Since when requests fail; null while the gateway answers. */
export const downSince = store<number | null>(null);

const ANSWER_MS_MAX = 20_000;

export async function request<T>(method: string, path: string, body?: unknown, stop?: AbortSignal): Promise<T> {
  return JSON.parse(await requestText(method, path, body, stop)) as T;
}

export async function requestText(method: string, path: string, body?: unknown, stop?: AbortSignal): Promise<string> {
  const headers: Record<string, string> = { accept: "application/json" };
  if (token.get()) headers.authorization = `Bearer ${token.get()}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const limit = AbortSignal.timeout(ANSWER_MS_MAX);
  const signal = stop ? AbortSignal.any([stop, limit]) : limit;
  let response: Response;
  let text: string;
  try {
    const sent = body === undefined ? null : typeof body === "string" ? body : JSON.stringify(body);
    response = await fetch(`v1/${path}`, { method, headers, body: sent, signal, cache: "no-store" });
    text = await response.text();
  } catch (error) {
    if (stop?.aborted) throw error;
    if (downSince.get() === null) downSince.set(Date.now());
    throw new ApiError(0, "unreachable", "the gateway does not answer");
  }
  downSince.set(null);
  if (response.ok) {
    refused.set(null);
    return text || "null";
  }
  throw refusal(response.status, text);
}

function refusal(status: number, text: string): ApiError {
  if (status === 401) refused.set("");
  try {
    const { error } = JSON.parse(text) as { error: Record<string, string> };
    // Too many wrong tokens from here: ours is one, or is not looked at for a while.
    if (error.code === "too_many_requests") refused.set([error.message, error.hint].filter(Boolean).join("; "));
    return new ApiError(status, error.code ?? "", error.message ?? "", error.hint, error.request_id, error.cause);
  } catch {
    return new ApiError(status, `http_${status}`, `the gateway answered ${status}`);
  }
}

/** A query string of what is there. */
export function query(fields: Record<string, string | number | boolean | null | undefined>): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) {
    if (value !== undefined && value !== null && value !== "") params.set(name, String(value));
  }
  const text = params.toString();
  return text && `?${text}`;
}
