// The timeline of a job with durable steps.
import type { JobDetail } from "../api/types";
import { type Event, hasTimeline, timeline } from "../model/timeline";
import { clock, span } from "../model/time";
import { useWords } from "../words";
import { visible } from "./payload";
import { Panel, When } from "./small";

export function Timeline({ job }: { job: JobDetail }) {
  const words = useWords();
  if (!hasTimeline(job)) return null;
  const events = timeline(job);
  const said = ({ what, name = "", attempt = 0, outcome = "" }: Event) => words.timeline.said(what, visible(name), attempt, words.outcome[outcome] ?? visible(outcome));
  return (
    <Panel title={words.timeline.title} hint={words.timeline.hint} class="timeline">
      <ol>
        {events.map((event, index) => (
          <li key={index} data-what={event.what}>
            <time dateTime={new Date(event.at).toISOString()}>{clock(event.at)}</time>{" "}
            {said(event)}
            {event.what === "waits" ? <> <When at={job.due} /></> : index ? <span class="dim"> +{span(event.at - events[index - 1]!.at)}</span> : null}
          </li>
        ))}
      </ol>
    </Panel>
  );
}
