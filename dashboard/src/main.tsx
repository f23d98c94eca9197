// The frame of the page: the bar on top, the page of the route below.
import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import "uplot/dist/uPlot.min.css";
import "./style/base.css";
import "./style/parts.css";
import "./style/lists.css";
import "./style/flows.css";
import { idsEndingIn, info, stats } from "./api/client";
import { downSince, refused } from "./api/http";
import { connect, disconnect, liveState } from "./api/live";
import { known, may } from "./app/access";
import { useKeys } from "./app/keys";
import { useRead } from "./app/query";
import { go, href, route, toJob, toJobs, toQueue } from "./app/route";
import { type Theme, language, theme, token } from "./app/settings";
import { useStore } from "./app/store";
import { idEnd, isId, readSearch } from "./model/search";
import { span } from "./model/time";
import { AuditPage } from "./pages/audit";
import { EnginePage } from "./pages/engine";
import { Enqueue } from "./pages/enqueue";
import { JobPage } from "./pages/job";
import { FlowPage } from "./pages/flow";
import { FlowsPage } from "./pages/flows";
import { Jobs } from "./pages/jobs";
import { LimitsPage } from "./pages/limits";
import { Login } from "./pages/login";
import { Overview } from "./pages/overview";
import { QueuePage, type View, isView } from "./pages/queue";
import { RelaysPage } from "./pages/relays";
import { TopicsPage } from "./pages/topics";
import { SchedulePage } from "./pages/schedule";
import { SchedulesPage } from "./pages/schedules";
import { Unknown } from "./pages/unknown";
import { Workers } from "./pages/workers";
import { Dialog, Notices, notify } from "./parts/dialog";
import { Icon } from "./parts/icons";
import { inView, short, useTick } from "./parts/small";
import { useWords } from "./words";

function App() {
  const needsToken = useStore(refused) !== null;
  useEffect(() => {
    if (needsToken) disconnect();
  }, [needsToken]);
  if (needsToken) {
    return (
      <>
        <header class="bar"><span class="brand">Punctual</span><span class="grow" /><Choices /></header>
        <main><Login /></main>
      </>
    );
  }
  return <Inside />;
}

function Inside() {
  const [help, setHelp] = useState(false);
  const about = useRead("info", info, { every: 10_000 });
  useEffect(() => void (about.data && known.set(about.data)), [about.data]);
  useEffect(() => {
    if (liveState.get() !== "live") connect();
  }, []);
  const search = useRef<HTMLInputElement>(null);
  const dead = toJobs({ state: "dead" });
  useKeys({
    "/": () => search.current?.focus(), "?": () => setHelp(true),
    "g o": () => go("#/"), "g j": () => go("#/jobs"), "g d": () => go(dead), "g w": () => go("#/workers"), "g c": () => go("#/schedules"), "g f": () => go("#/flows"), "g r": () => go("#/relays"), "g t": () => go("#/topics"), "g l": () => go("#/limits"), "g s": () => go("#/engine"), "g a": () => go("#/audit"), e: () => go("#/enqueue"), "g e": () => go("#/enqueue"), a: toActions,
  });
  return (
    <>
      <Bar search={search} help={() => setHelp(true)} />
      <main><Page /></main>
      <Notices />
      {help ? <Help close={() => setHelp(false)} /> : null}
    </>
  );
}

/** The buttons of what is selected, or else those of the page. */
const toActions = () => (document.querySelector<HTMLElement>("main .picked [data-action]") ?? document.querySelector<HTMLElement>("main [data-action]"))?.focus();

function Page() {
  const { path, query } = useStore(route);
  const [first, second, third] = path;
  useEffect(() => scrollTo(0, 0), [first, second]);
  const depth = path.length;
  if (first === "queues" && second && (depth === 2 || (depth === 3 && isView(third!)))) return <QueuePage key={second} name={second} view={third as View | undefined} />;
  if (first === "jobs" && second && depth === 2) return <JobPage key={second} id={second} />;
  if (first === "schedules" && second && depth === 2) return <SchedulePage key={second} name={second} />;
  if (first === "flows" && second && depth === 2) return <FlowPage key={second} name={second} />;
  if (depth > 1) return <Unknown path={path} />;
  switch (first) {
    case undefined: return <Overview />;
    case "jobs": return <Jobs params={query} />;
    case "workers": return <Workers />;
    case "schedules": return <SchedulesPage />;
    case "flows": return <FlowsPage />;
    case "topics": return <TopicsPage />;
    case "limits": return <LimitsPage />;
    case "relays": return <RelaysPage />;
    case "enqueue": return <Enqueue key={query.toString()} params={query} />;
    case "engine": return <EnginePage />;
    case "audit": return <AuditPage />;
    default: return <Unknown path={path} />;
  }
}

function Bar({ search, help }: { search: { current: HTMLInputElement | null }; help(): void }) {
  const words = useWords();
  const { path, query } = useStore(route);
  const about = useStore(known);
  const counts = useRead("bar", (stop) => stats({}, stop), { every: 15_000 });
  const dead = counts.data?.queues.reduce((sum, queue) => sum + queue.dead, 0) ?? 0;
  const [first] = path;
  const isDead = first === "jobs" && path.length === 1 && query.get("state") === "dead";
  const here = (name: string) => (name === (isDead ? "dead" : (first ?? "")) ? "page" : undefined);
  return (
    <header class="bar">
      <a class="brand" href="#/" title={about ? `${about.engine} ${about.version}, ${about.durability}` : ""}>Punctual</a>
      <nav key={counts.data ? "counted" : ""} aria-label={words.nav.main} ref={inView}>
        <a href="#/" aria-current={here("")}>{words.nav.overview}</a>
        <a href="#/jobs" aria-current={here("jobs")}>{words.nav.jobs}</a>
        <a href={toJobs({ state: "dead" })} aria-current={here("dead")}>{words.nav.dead}{dead ? <b class="many">{short(dead)}</b> : null}</a>
        <a href="#/schedules" aria-current={here("schedules")}>{words.nav.schedules}</a>
        <a href="#/flows" aria-current={here("flows")}>{words.nav.flows}</a>
        <a href="#/topics" aria-current={here("topics")}>{words.nav.topics}</a>
        <a href="#/limits" aria-current={here("limits")}>{words.nav.limits}</a>
        <a href="#/workers" aria-current={here("workers")}>{words.nav.workers}</a>
        <a href="#/relays" aria-current={here("relays")}>{words.nav.relays}</a>
        {may(about, "enqueue") ? <a href={href(["enqueue"])} aria-current={here("enqueue")}>{words.nav.enqueue}</a> : null}
        <a href="#/engine" aria-current={here("engine")}>{words.nav.engine}</a>
        {may(about, "admin") ? <a href="#/audit" aria-current={here("audit")}>{words.nav.audit}</a> : null}
      </nav>
      <SearchBox box={search} queues={counts.data?.queues.map((queue) => queue.queue) ?? []} />
      {about && about.namespace !== "default" ? <span class="badge">{about.namespace}</span> : null}
      <Live />
      <Choices help={help} />
    </header>
  );
}

function SearchBox({ box, queues }: { box: { current: HTMLInputElement | null }; queues: string[] }) {
  const words = useWords();
  const submit = (event: Event) => {
    event.preventDefault();
    const text = box.current?.value.trim() ?? "";
    if (!text) return;
    const end = idEnd(text);
    if (isId(text)) go(toJob(text.toLowerCase()));
    else if (queues.includes(text)) go(toQueue(text));
    else if (end) void toJobThatEnds(end, text);
    else go(toJobs({ ...readSearch(text) }));
    box.current!.value = "";
    box.current!.blur();
  };
  /** Digits that end no id are text in a payload. */
  const toJobThatEnds = async (end: string, text: string) => {
    const found = await idsEndingIn(end).catch(() => []);
    if (found.length > 1) notify({ text: words.filter.idsEnd(found.length, end), bad: true });
    else go(found[0] ? toJob(found[0]) : toJobs({ ...readSearch(text) }));
  };
  return (
    <form class="search" role="search" onSubmit={submit}>
      <input ref={box} type="search" placeholder={words.filter.search} aria-label={words.keys.search} spellcheck={false} autocomplete="off" list="queue-names" />
      <datalist id="queue-names">{queues.slice(0, 200).map((queue) => <option key={queue} value={queue} />)}</datalist>
      <kbd>/</kbd>
    </form>
  );
}

function Live() {
  useTick();
  const words = useWords();
  const state = useStore(liveState);
  const down = useStore(downSince);
  const shown = down === null ? state : "lost";
  return (
    <span class={`live ${down === null ? state : "down"}`} data-live={shown} title={words.live.hint[shown]}>
      {down === null ? words.live[state] : words.live.lostSince(span(Date.now() - down))}
    </span>
  );
}

function Choices({ help }: { help?: () => void }) {
  const words = useWords();
  const now = useStore(theme);
  const next: Record<Theme, Theme> = { auto: "dark", dark: "light", light: "auto" };
  return (
    <span class="choices">
      <button class="plain" title={words.theme[now]} aria-label={words.theme[now]} onClick={() => theme.set(next[now])}><Icon name={now} /></button>
      <button class="plain" title={words.otherLanguage} aria-label={words.otherLanguage} onClick={() => language.set(language.get() === "en" ? "zh" : "en")}><Icon name="language" /></button>
      {help ? <button class="plain" title={words.keys.title} aria-label={words.keys.title} onClick={help}>?</button> : null}
    </span>
  );
}

function Help({ close }: { close(): void }) {
  const words = useWords();
  const { keys, auth } = words;
  const about = useStore(known);
  const rows: [string, string][] = [
    ["/", keys.search], ["j  k", `${keys.down}, ${keys.up}`], ["Enter", keys.open], ["x", keys.select], ["X", keys.selectAll], ["a", keys.act], ["r", keys.refresh], ["g o", keys.overview], ["g j", keys.jobs], ["g d", keys.dead], ["g w", keys.workers], ["g c", keys.schedules], ["g f", keys.flows], ["g r", keys.relays], ["g t", keys.topics], ["g l", keys.limits], ["e", keys.enqueue], ["g s", keys.engine], ["g a", keys.audit], ["Esc", keys.close], ["?", keys.help],
  ];
  return (
    <Dialog title={keys.title} close={close}>
      <dl class="fields keys">{rows.map(([key, text]) => <div key={key}><dt><kbd>{key}</kbd></dt><dd>{text}</dd></div>)}</dl>
      {about ? <p class="dim">{about.engine} {about.version} · {about.durability} · {about.namespace} · {about.scopes.join(", ")}</p> : null}
      <footer>
        {token.get() ? <button onClick={() => (token.set(""), refused.set(""))}>{auth.out}</button> : null}
        <button class="main" onClick={close}>{words.bulk.close}</button>
      </footer>
    </Dialog>
  );
}

render(<App />, document.getElementById("app")!);
