// Routes live behind the `#`, so that the gateway serves one page and no paths of ours.
import { store } from "./store";

export interface Route {
  path: string[];
  query: URLSearchParams;
}

const parse = (): Route => {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  return { path: path.split("/").filter(Boolean).map(decode), query: new URLSearchParams(query) };
};

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const route = store<Route>(parse());
addEventListener("hashchange", () => route.set(parse()));

type Params = Record<string, string | undefined>;

export function href(path: string[], params: Params = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) if (value) query.set(name, value);
  const text = query.toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export const toQueue = (queue: string) => href(["queues", queue]);
export const toJob = (id: string) => href(["jobs", id]);
export const toSchedule = (name: string) => href(["schedules", name]);
export const toFlow = (name: string) => href(["flows", name]);
export const toJobs = (params: Params) => href(["jobs"], params);

export function go(to: string, replace = false) {
  if (replace) {
    history.replaceState(null, "", to);
    route.set(parse());
  } else {
    location.hash = to;
  }
}
