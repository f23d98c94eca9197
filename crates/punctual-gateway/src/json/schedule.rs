//! A schedule as JSON: what a `PUT` sends, and what answers say of it.

use punctual::NewJob;
use punctual::schedule::{
    Every, Fold, Form, GRACE_DEFAULT, Gap, MISSED_MAX, Missed, Overlap, PatternText, Schedule,
    ScheduleStatus, Spec, Success, Template,
};
use punctual::time::{exact_span, parse_span};
use punctual_push::Guard;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::http::{Problem, Result};
use crate::job_json::{InstantText, JobJson, LineError, SpanText, either, json_or_base64, raw};
use crate::json::new_job::new_job;
use crate::words::{Count, Id};

/// What happens to a run while another one is on its way.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum OverlapLine {
    #[default]
    Skip,
    BufferOne,
    BufferAll,
    CancelOther,
    Allow,
}

/// What happens to runs that an outage made late.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum MissedLine {
    #[default]
    Latest,
    All,
    Skip,
}

/// A run at a local time that a clock skips.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum GapLine {
    #[default]
    End,
    Shift,
    Skip,
}

/// A run at a local time that comes twice.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum FoldLine {
    #[default]
    First,
    Last,
    Both,
}

/// A schedule: when to enqueue which job.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Schedule)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScheduleLine {
    /// Patterns of five fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    cron: Vec<String>,
    /// Patterns of six fields, a second first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    cron_seconds: Vec<String>,
    /// Lines of Quartz.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    quartz: Vec<String>,
    /// Spans such as `5m`, or `1h+15m` for a quarter past.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    every: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    at: Vec<InstantText>,
    /// Patterns of five fields whose minutes are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    except: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    except_seconds: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    except_quartz: Vec<String>,
    /// A place of the tz database; `UTC` if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<SpanText>,
    #[serde(default)]
    gap: GapLine,
    #[serde(default)]
    fold: FoldLine,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    jitter: Option<SpanText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start: Option<InstantText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end: Option<InstantText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Count>)]
    max_runs: Option<u64>,
    #[serde(default)]
    overlap: OverlapLine,
    #[serde(default)]
    missed: MissedLine,
    /// With `all`: how many run, at most 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    missed_max: Option<u8>,
    /// Runs that are late by no more run anyway; `1m` if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    grace: Option<SpanText>,
    #[serde(default)]
    pause_on_failure: bool,
    /// After that long without a run that completed it is overdue: `1s` to `400d`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expect_within: Option<SpanText>,
    /// If omitted, a schedule that is there stays paused or not, with its note.
    #[serde(default)]
    paused: Option<bool>,
    #[serde(default)]
    note: String,
    /// The job of each run; without `id`, `delay`, `at`, `expires_at` and `wait_for`.
    job: JobJson,
}

impl ScheduleLine {
    pub(crate) fn into_schedule(self, guard: &Guard) -> Result<Schedule> {
        self.into_schedule_of(|line| new_job(line, guard))
    }

    /// The schedule, with the job that a function makes of its line.
    pub(crate) fn into_schedule_of(
        self,
        job: impl FnOnce(JobJson) -> Result<NewJob>,
    ) -> Result<Schedule> {
        if self.job.id.is_some() {
            return Err(
                Problem::invalid("job.id is set, and each run has an id of its own")
                    .hint("leave it out"),
            );
        }
        let mut spec = Spec::builder();
        let texts = |form, texts: Vec<String>| {
            let texts = texts.into_iter();
            texts.map(move |text| PatternText::new(form, text))
        };
        spec.patterns = texts(Form::Cron, self.cron)
            .chain(texts(Form::CronWithSeconds, self.cron_seconds))
            .chain(texts(Form::Quartz, self.quartz))
            .collect();
        spec.except = texts(Form::Cron, self.except)
            .chain(texts(Form::CronWithSeconds, self.except_seconds))
            .chain(texts(Form::Quartz, self.except_quartz))
            .collect();
        for text in &self.every {
            let (span, phase) = text.split_once('+').unwrap_or((text, "0s"));
            spec = spec.every_with_phase(parse_span(span)?, parse_span(phase)?);
        }
        spec.at = self.at.into_iter().map(|at| at.0).collect();
        if let Some(zone) = self.zone {
            spec.zone = zone;
        }
        let span = |span: Option<SpanText>| span.map(|span| span.0).unwrap_or_default();
        spec.before = span(self.before);
        spec.jitter = span(self.jitter);
        spec.gap = match self.gap {
            GapLine::End => Gap::AtItsEnd,
            GapLine::Shift => Gap::Shift,
            GapLine::Skip => Gap::Skip,
        };
        spec.fold = match self.fold {
            FoldLine::First => Fold::First,
            FoldLine::Last => Fold::Last,
            FoldLine::Both => Fold::Both,
        };
        spec.start = self.start.map(|at| at.0);
        spec.end = self.end.map(|at| at.0);
        spec.max_runs = self.max_runs;
        let spec = spec.build()?.parts().clone();
        let template = Template::of(job(self.job)?)?;
        let mut schedule = Schedule::new(spec, template);
        if self.missed_max.is_some() && !matches!(self.missed, MissedLine::All) {
            let problem = Problem::invalid("missed_max needs another policy");
            return Err(problem.hint("use missed all, or omit missed_max"));
        }
        if self.grace.is_some() && matches!(self.missed, MissedLine::All) {
            let problem = Problem::invalid("grace needs another policy");
            return Err(problem.hint(
                "all missed runs run, however late; omit grace, or use missed latest or skip",
            ));
        }
        let grace = self.grace.map_or(GRACE_DEFAULT, |grace| grace.0);
        schedule.missed = match self.missed {
            MissedLine::Latest => Missed::Latest { grace },
            MissedLine::Skip => Missed::Skip { grace },
            MissedLine::All => Missed::All {
                max: self.missed_max.map_or(MISSED_MAX, u32::from),
            },
        };
        schedule.overlap = match self.overlap {
            OverlapLine::Skip => Overlap::Skip,
            OverlapLine::BufferOne => Overlap::BufferOne,
            OverlapLine::BufferAll => Overlap::BufferAll,
            OverlapLine::CancelOther => Overlap::CancelOther,
            OverlapLine::Allow => Overlap::Allow,
        };
        schedule.pause_on_failure = self.pause_on_failure;
        schedule.expect_within = self.expect_within.map(|span| span.0);
        schedule.paused = self.paused.unwrap_or(false);
        schedule.note = self.note;
        Ok(schedule)
    }

    /// Whether a schedule that is there stays paused or not.
    pub(crate) fn keeps_pause(&self) -> bool {
        self.paused.is_none()
    }

    pub(crate) fn of(schedule: &Schedule) -> Self {
        let spec = &schedule.spec;
        let texts = |patterns: &[PatternText], form| {
            let patterns = patterns.iter().filter(|pattern| pattern.form == form);
            patterns.map(|pattern| pattern.text.clone()).collect()
        };
        let span = |span: std::time::Duration| (!span.is_zero()).then(|| span.into());
        let every = |every: &Every| match every.phase.is_zero() {
            true => exact_span(every.span),
            false => format!("{}+{}", exact_span(every.span), exact_span(every.phase)),
        };
        let (missed, missed_max, grace) = match schedule.missed {
            Missed::All { max } => (MissedLine::All, u8::try_from(max).ok(), None),
            Missed::Skip { grace } => (MissedLine::Skip, None, Some(grace.into())),
            Missed::Latest { grace } => (MissedLine::Latest, None, Some(grace.into())),
            _ => (MissedLine::Latest, None, None),
        };
        Self {
            cron: texts(&spec.patterns, Form::Cron),
            cron_seconds: texts(&spec.patterns, Form::CronWithSeconds),
            quartz: texts(&spec.patterns, Form::Quartz),
            every: spec.every.iter().map(every).collect(),
            at: spec.at.iter().map(|at| (*at).into()).collect(),
            except: texts(&spec.except, Form::Cron),
            except_seconds: texts(&spec.except, Form::CronWithSeconds),
            except_quartz: texts(&spec.except, Form::Quartz),
            zone: Some(spec.zone.clone()),
            before: span(spec.before),
            gap: match spec.gap {
                Gap::Shift => GapLine::Shift,
                Gap::Skip => GapLine::Skip,
                _ => GapLine::End,
            },
            fold: match spec.fold {
                Fold::Last => FoldLine::Last,
                Fold::Both => FoldLine::Both,
                _ => FoldLine::First,
            },
            jitter: span(spec.jitter),
            start: spec.start.map(Into::into),
            end: spec.end.map(Into::into),
            max_runs: spec.max_runs,
            overlap: match schedule.overlap {
                Overlap::BufferOne => OverlapLine::BufferOne,
                Overlap::BufferAll => OverlapLine::BufferAll,
                Overlap::CancelOther => OverlapLine::CancelOther,
                Overlap::Allow => OverlapLine::Allow,
                _ => OverlapLine::Skip,
            },
            missed,
            missed_max,
            grace,
            pause_on_failure: schedule.pause_on_failure,
            expect_within: schedule.expect_within.map(Into::into),
            paused: Some(schedule.paused),
            note: schedule.note.clone(),
            job: JobJson::of_template(&schedule.template),
        }
    }
}

/// The last run of a schedule.
#[derive(Debug, Serialize, ToSchema)]
struct LastRun {
    /// The instant that it stands for.
    at: InstantText,
    #[schema(value_type = Id)]
    id: String,
}

/// The last run of a schedule that completed.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LastSuccess {
    /// The instant that it stands for.
    at: InstantText,
    finished_at: InstantText,
    /// As a job has it.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "raw"
    )]
    #[schema(value_type = serde_json::Value, required = false)]
    result: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result_base64: Option<String>,
}

impl LastSuccess {
    pub(crate) fn into_success(self) -> std::result::Result<Success, LineError> {
        let result = either(&self.result, &self.result_base64, "result");
        let result = result.map_err(|why| format!("last_success {why}"))?;
        Ok(Success::new(self.at.0, self.finished_at.0, result))
    }
}

impl From<&Success> for LastSuccess {
    fn from(success: &Success) -> Self {
        let (result, result_base64) = json_or_base64(success.result.as_deref(), |_| true);
        Self {
            at: success.at.into(),
            finished_at: success.finished_at.into(),
            result,
            result_base64,
        }
    }
}

/// A schedule, and how it stands.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ScheduleAnswer {
    name: String,
    /// For `If-Match`.
    #[schema(value_type = Count)]
    version: u64,
    schedule: ScheduleLine,
    /// The job of the next run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Id>)]
    pending: Option<String>,
    /// The next instants, at most 16.
    next: Vec<InstantText>,
    /// Until when the store knows the instants; absent if that never ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    lasts_until: Option<InstantText>,
    /// Whether it has no run to come although it has not ended.
    dry: bool,
    ended: bool,
    #[schema(value_type = Count)]
    fired: u64,
    #[schema(value_type = Count)]
    skipped: u64,
    #[schema(value_type = Count)]
    missed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<LastRun>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_success: Option<LastSuccess>,
    /// Since when a run that completes is overdue.
    #[serde(skip_serializing_if = "Option::is_none")]
    overdue_since: Option<InstantText>,
}

impl From<&ScheduleStatus> for ScheduleAnswer {
    fn from(status: &ScheduleStatus) -> Self {
        Self {
            name: status.name.clone(),
            version: status.version,
            schedule: ScheduleLine::of(&status.schedule),
            pending: status.pending.map(|id| id.to_string()),
            next: status.next.iter().map(|at| (*at).into()).collect(),
            lasts_until: status.lasts_until.map(Into::into),
            dry: status.dry,
            ended: status.ended,
            fired: status.fired,
            skipped: status.skipped,
            missed: status.missed,
            last: status.last.map(|(at, id)| LastRun {
                at: at.into(),
                id: id.to_string(),
            }),
            last_success: status.last_success.as_ref().map(Into::into),
            overdue_since: status.overdue_since.map(Into::into),
        }
    }
}
