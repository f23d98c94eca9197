// The charts of one queue or of all of them: throughput, lateness, run time, what falls due.
import { useMemo, useState } from "preact/hooks";
import type { DueBucket, Minute } from "../api/types";
import { toJobs } from "../app/route";
import { type DueRange, allBuckets, dueBars, series } from "../model/history";
import { day, hourMinute, span } from "../model/time";
import { useWords } from "../words";
import { Bars, Chart, formatCount } from "./chart";
import { Panel, Tabs } from "./small";

export type Range = "hour" | "sixHours" | "day";
export const RANGES: Record<Range, { minutes: number; step: number }> = {
  hour: { minutes: 60, step: 1 },
  sixHours: { minutes: 360, step: 5 },
  day: { minutes: 1_440, step: 15 },
};
const DUE_RANGES = ["tenMinutes", "hour", "day", "month"] as const;

interface Props {
  histories: (Minute[] | undefined)[];
  due: (DueBucket[] | undefined)[];
  now: number;
  range: Range;
  setRange(range: Range): void;
  /** The queue, if it is one. */
  queue?: string;
}

export function Charts({ histories, due, now, range, setRange, queue }: Props) {
  const words = useWords();
  const { charts } = words;
  const [ahead, setAhead] = useState<DueRange>("hour");
  const { minutes, step } = RANGES[range];
  const data = useMemo(() => series(histories, now, minutes, step), [histories, minutes, step, Math.floor(now / 15_000)]);
  const buckets = useMemo(() => allBuckets(due), [due]);
  const { bars, later } = dueBars(buckets, now, ahead);
  const sum = bars.reduce((all, bar) => all + bar.jobs, 0);
  const marks = (from: number, index: number) => {
    const at = new Date(from);
    if (ahead === "month") return index % 5 === 0 ? day(at).slice(5) : "";
    if (ahead === "day") return index % 4 === 0 ? hourMinute(at) : "";
    return index % 2 === 0 ? hourMinute(at) : "";
  };
  const rangeTabs = <Tabs label={charts.range} of={["hour", "sixHours", "day"] as const} name={(one) => charts[one]} value={range} set={setRange} />;
  return (
    <div class="charts">
      <Panel title={charts.lateness} hint={charts.latenessHint} side={rangeTabs}>
        <Chart
          label={charts.lateness} empty={charts.empty} at={data.at} format={span} logarithmic
          lines={[{ name: charts.p99, colour: "warn", values: data.late99 }, { name: charts.p50, colour: "scheduled", values: data.late50 }]}
        />
      </Panel>
      <Panel title={charts.throughput}>
        <Chart
          label={charts.throughput} empty={charts.empty} at={data.at} format={formatCount}
          lines={[
            { name: charts.completed, colour: "active", values: data.completed, fill: true },
            { name: charts.enqueued, colour: "scheduled", values: data.enqueued },
            { name: charts.failed, colour: "warn", values: data.failed },
            { name: charts.dead, colour: "dead", values: data.dead },
          ]}
        />
      </Panel>
      {queue ? (
        <Panel title={charts.runTime} hint={charts.runTimeHint}>
          <Chart
            label={charts.runTime} empty={charts.empty} at={data.at} format={span} logarithmic
            lines={[{ name: charts.p99, colour: "held", values: data.run99 }, { name: charts.p50, colour: "scheduled", values: data.run50 }]}
          />
        </Panel>
      ) : null}
      <Panel
        title={charts.due}
        side={<Tabs label={charts.range} of={DUE_RANGES} name={(one) => charts[one]} value={ahead} set={setAhead} />}
      >
        <div title={charts.bounded}>
          <p class="caption"><b>{charts.sum(sum)}</b>{later ? ` · ${charts.later(later)}` : ""}</p>
          <Bars
            label={charts.due} bars={bars} mark={(bar, index) => marks(bar.from, index)} format={charts.sum}
            link={(bar) => toJobs({ state: "scheduled", queue, from: new Date(bar.from).toISOString(), before: new Date(bar.until).toISOString() })}
          />
        </div>
      </Panel>
    </div>
  );
}
