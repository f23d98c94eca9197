//! G: flows come to their end, call back once, and run no step before its time.

use std::collections::{BTreeMap, BTreeSet};

use punctual::JobState;
use punctual::flow::{On, OnFailure};

use super::Verdict;
use super::job_timelines::Case;
use crate::event::Event;
use crate::flows::{FlowPlan, Place};

/// What the histories say of flows.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    plans: BTreeMap<String, FlowPlan>,
    /// Those whose sending was acknowledged.
    known: BTreeSet<String>,
    /// Steps that were asked to be cancelled.
    cancels: BTreeSet<Place>,
    /// By job: when each attempt began, and its number.
    starts: BTreeMap<Place, Vec<(u64, u32)>>,
    /// By job: when each attempt ended, its number, and whether it was to complete the job.
    finishes: BTreeMap<Place, Vec<(u64, u32, bool)>>,
}

impl Flows {
    /// Notes what happened to a flow; returns an event of another kind.
    pub(super) fn note(&mut self, at: u64, event: Event) -> Option<Event> {
        match event {
            Event::FlowInvoke { plan } => drop(self.plans.insert(plan.name.clone(), plan)),
            Event::FlowOk { flow } => drop(self.known.insert(flow)),
            Event::StepCancel { place } => drop(self.cancels.insert(place)),
            Event::StepStart { place, attempt } => {
                self.starts.entry(place).or_default().push((at, attempt));
            }
            Event::StepFinish {
                place,
                attempt,
                completes,
            } => {
                let finishes = self.finishes.entry(place).or_default();
                finishes.push((at, attempt, completes));
            }
            other => return Some(other),
        }
        None
    }

    /// When the last attempt of a step began, if it ran to its end and no cancel may have ended it.
    fn last_start(&self, place: &Place) -> Option<u64> {
        let (at, attempt) = *self.starts.get(place)?.iter().max_by_key(|start| start.1)?;
        let mut finishes = self.finishes.get(place)?.iter();
        let ran = finishes.any(|finish| finish.1 == attempt);
        (ran && !self.cancels.contains(place)).then_some(at)
    }

    fn first_start(&self, place: &Place) -> Option<u64> {
        self.starts.get(place)?.iter().map(|start| start.0).min()
    }

    /// When an attempt was first to complete the step.
    fn completes_at(&self, place: &Place) -> Option<u64> {
        let finishes = self.finishes.get(place)?.iter();
        finishes.filter(|it| it.2).map(|it| it.0).min()
    }
}

/// The verdicts about flows.
pub(super) fn judge(case: &Case) -> [Verdict; 3] {
    [no_flow_stalls(case), callbacks_once(case), in_order(case)]
}

/// G1: each flow whose sending was acknowledged is known and has settled, and a recount agrees.
fn no_flow_stalls(case: &Case) -> Verdict {
    let mut verdict = Verdict::new("G1 no flow stalls");
    let flows = &case.flows;
    verdict.check(!flows.known.is_empty(), || "no flow was sent".into());
    for name in flows.plans.keys() {
        let is_known = flows.known.contains(name);
        let Some(seen) = case.snapshot.flows.get(name) else {
            verdict.check(!is_known, || format!("{name} is gone"));
            continue;
        };
        let has_settled = ["done", "failed", "cancelled"].contains(&&*seen.state);
        let was_sent_in_part = seen.state == "open" && !is_known;
        verdict.check(has_settled || was_sent_in_part, || {
            format!("{name} is {} in the end", seen.state)
        });
        let differs = seen.differs.as_ref();
        verdict.check(differs.is_none(), || {
            format!(
                "{name} is counted wrongly: {}",
                differs.expect("it is some")
            )
        });
    }
    verdict
}

/// G2: the callback of each flow is released, completes, and runs in no attempt twice, nor before
/// the flow's last step.
fn callbacks_once(case: &Case) -> Verdict {
    let mut verdict = Verdict::new("G2 callbacks run once");
    let flows = &case.flows;
    for name in &flows.known {
        let (Some(seen), Some(plan)) = (case.snapshot.flows.get(name), flows.plans.get(name))
        else {
            continue;
        };
        verdict.check(seen.fired == [true], || {
            format!("{name} has callbacks that were released: {:?}", seen.fired)
        });
        let callback = Place {
            flow: name.clone(),
            step: None,
        };
        let state = case
            .snapshot
            .jobs
            .get(&callback.id())
            .map(|seen| seen.state);
        verdict.check(state == Some(JobState::Completed), || {
            format!("the callback of {name} is {state:?}")
        });
        let starts = flows.starts.get(&callback).cloned().unwrap_or_default();
        let attempts: BTreeSet<u32> = starts.iter().map(|start| start.1).collect();
        verdict.check(attempts.len() == starts.len() && !starts.is_empty(), || {
            format!("the callback of {name} began in attempts {starts:?}")
        });
        let first = flows.first_start(&callback);
        for step in plan.places().filter(|place| place.step.is_some()) {
            let begins = flows.last_start(&step);
            verdict.check(first.is_none() || begins < first, || {
                format!("{step:?} began after the callback of its flow")
            });
        }
    }
    verdict
}

/// G3: a step begins after each job that it waits for has ended as asked.
fn in_order(case: &Case) -> Verdict {
    let mut verdict = Verdict::new("G3 steps wait");
    let flows = &case.flows;
    for plan in flows.plans.values() {
        let of = |step| Place {
            flow: plan.name.clone(),
            step: Some(step),
        };
        for (to, step) in plan.steps.iter().enumerate() {
            let Some(begins) = flows.first_start(&of(to)) else {
                continue;
            };
            for (from, on) in &step.after {
                let from = of(*from);
                let last = flows.last_start(&from);
                verdict.check(last.is_none_or(|last| last < begins), || {
                    format!("{:?} began before the last attempt of {from:?}", of(to))
                });
                let state = case.snapshot.jobs.get(&from.id()).map(|seen| seen.state);
                let goes_on = plan.on_failure == OnFailure::Continue;
                let is_met = match on {
                    On::Completed if !goes_on => {
                        let completes = flows.completes_at(&from);
                        completes.is_some_and(|at| at < begins)
                    }
                    On::Failed => state != Some(JobState::Completed),
                    _ => true,
                };
                verdict.check(is_met, || {
                    format!(
                        "{:?} began, and {from:?}, which it waits for, is {state:?}",
                        of(to)
                    )
                });
            }
        }
    }
    verdict
}
