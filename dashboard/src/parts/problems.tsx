// What is wrong, at the top of the page, in words.
import { useState } from "preact/hooks";
import { toJobs, toQueue } from "../app/route";
import type { Problem } from "../model/problems";
import { Icon } from "./icons";
import { useWords } from "../words";

/** More are shown on demand: the worst come first. */
const SHOWN = 6;

export function Problems({ problems, calm }: { problems: Problem[]; calm: string }) {
  const words = useWords();
  const [all, setAll] = useState(false);
  if (!problems.length) {
    return (
      <section class="verdict ok" role="status">
        <b>{words.problems.none}</b> <span>{calm}</span>
      </section>
    );
  }
  const shown = all ? problems : problems.slice(0, SHOWN);
  return (
    <section class="verdict" role="alert" aria-label={words.problems.title}>
      <ul>
        {shown.map((problem, index) => (
          <li key={index} class={problem.level}>
            <span class="sign" aria-hidden="true"><Icon name={problem.level === "bad" ? "cross" : "warn"} /></span>
            <span class="said">
              {problem.queue ? <a class="queue" href={toQueue(problem.queue)}>{problem.queue}</a> : null}
              {problem.queue && problem.state ? <a class="text" href={toJobs({ queue: problem.queue, state: problem.state })}>{problem.text}</a> : <span class="text">{problem.text}</span>}
              {problem.hint ? <span class="dim help">{problem.hint}{problem.command ? <> <code>{problem.command}</code></> : null}</span> : null}
            </span>
          </li>
        ))}
      </ul>
      {problems.length > shown.length ? <button class="plain link" onClick={() => setAll(true)}>{words.problems.more(problems.length - shown.length)}</button> : null}
    </section>
  );
}
