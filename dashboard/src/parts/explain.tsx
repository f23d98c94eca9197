// Why a job stands where it stands, in sentences, with the means to check each.
import type { Job, Reason } from "../api/types";
import { toFlow, toJob, toQueue } from "../app/route";
import { engineNow, relative, span } from "../model/time";
import { useWords, type Words } from "../words";
import { visible } from "./payload";
import { useTick } from "./small";

export function Explain({ job, reasons }: { job: Job; reasons: Reason[] }) {
  useTick();
  const words = useWords();
  return (
    <ol class="explain" aria-label={words.job.explain}>
      {reasons.map((reason, index) => {
        const { text, link } = sentence(reason, job, words);
        return (
          <li key={index} class={index ? "dim" : ""} data-reason={reason.reason}>
            {text} {link ? <a href={link.href}><code>{link.text}</code></a> : null}
          </li>
        );
      })}
    </ol>
  );
}

interface Said {
  text: string;
  link?: { href: string; text: string };
}

function sentence(reason: Reason, job: Job, words: Words): Said {
  const say = words.reason;
  const text = (name: string) => visible(String(reason[name] ?? ""));
  const when = (name: string) => relative(String(reason[name]), words);
  const number = (name: string) => Number(reason[name] ?? 0);
  const jobLink = (name: string) => ({ href: toJob(String(reason[name])), text: text(name) });
  const toLimit = { href: "#/limits", text: text("name") };
  switch (reason.reason) {
    case "not_due": return { text: say.not_due(when("due")) };
    case "waits_for_retry": return { text: say.waits_for_retry(when("due"), number("failures")) };
    case "waits_for_names": return { text: say.waits_for_names(Array.isArray(reason.names) ? visible(reason.names.join(", ")) : "") };
    case "waits_for_jobs": {
      const [first] = Array.isArray(reason.jobs) ? reason.jobs : [];
      return { text: say.waits_for_jobs(number("waits")), ...(first && { link: { href: toJob(first), text: visible(first) } }) };
    }
    case "flow_open": return { text: say.flow_open, link: { href: toFlow(String(reason.flow)), text: text("flow") } };
    case "waits_for_flow": return { text: say.waits_for_flow(number("waits")), link: { href: toFlow(String(reason.flow)), text: text("flow") } };
    case "waits_for_holder": return { text: say.waits_for_holder, link: jobLink("holder") };
    case "queue_paused": return { text: say.queue_paused, link: { href: toQueue(job.queue), text: job.queue } };
    case "group_active": return { text: say.group_active, link: jobLink("by") };
    case "group_held": return { text: say.group_held(when("until")), link: jobLink("by") };
    case "suspect": return { text: say.suspect(number("crashes")) };
    case "no_worker": return { text: say.no_worker(job.queue) };
    case "no_worker_for_kind": return { text: say.no_worker_for_kind(job.queue, text("kind")) };
    case "concurrency_reached": return { text: say.concurrency_reached(number("active"), number("limit")), link: { href: toQueue(job.queue), text: job.queue } };
    case "rate_reached": return { text: say.rate_reached(text("rate"), when("until")), link: { href: toQueue(job.queue), text: job.queue } };
    case "share_blocked": return { text: say.share_blocked(text("share"), when("until")) };
    case "share_paused": return { text: say.share_paused(text("share")) };
    case "share_concurrency_reached": return { text: say.share_concurrency_reached(text("share"), number("active"), number("limit")) };
    case "share_rate_reached": return { text: say.share_rate_reached(text("share"), text("rate"), when("until")) };
    case "share_turn": return { text: say.share_turn(text("share"), number("ahead")) };
    case "limit_blocked": return { text: say.limit_blocked(when("until")), link: toLimit };
    case "limit_concurrency_reached": return { text: say.limit_concurrency_reached(number("active"), number("limit")), link: toLimit };
    case "limit_rate_reached": return { text: say.limit_rate_reached(text("rate"), when("until")), link: toLimit };
    case "in_line": return { text: say.in_line(number("ahead")) };
    case "active": return { text: say.active(span(engineNow() - Date.parse(String(reason.since))), when("until")), link: { href: "#/workers", text: text("worker") } };
    case "completed": return { text: say.completed };
    case "cancelled": return { text: say.cancelled(words.why[text("why")] ?? text("why")) };
    case "dead": return { text: say.dead(words.why[text("why")] ?? text("why")) };
    // Of a gateway that knows more: its own sentence.
    default: return { text: reason.text ? visible(reason.text) : reason.reason };
  }
}
