// The lines that workers logged to a job, the latest last.
import type { JobDetail } from "../api/types";
import { clock } from "../model/time";
import { useWords } from "../words";
import { visible } from "./payload";
import { Panel } from "./small";

export function JobLog({ job }: { job: JobDetail }) {
  const words = useWords();
  if (!job.log?.length) return null;
  const lines = job.log.map(({ at, attempt, text }) => `${clock(Date.parse(at))}  ${attempt}  ${visible(text)}`);
  return <Panel title={words.job.log} hint={words.job.logHint} class="joblog"><pre>{lines.join("\n")}</pre></Panel>;
}
