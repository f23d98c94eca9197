//! Makes a failing history small.

use super::action::{Action, EffectPlan, FilterPlan, GuardPlan, JobPlan, SettlePlan, Step};
use super::differ::Difference;
use super::replay::replay;
use crate::conformance::harness::Harness;

/// Replays spent on making one failure small.
const REPLAYS_MAX: usize = 1_500;

/// The smallest history found that still fails, with the step and the difference.
pub(super) async fn shrink(
    harness: &dyn Harness,
    seed: u64,
    steps: Vec<Step>,
    failure: (usize, Difference),
) -> (Vec<Step>, Difference) {
    let mut shrinking = Shrinking {
        harness,
        seed,
        replays: 0,
        steps,
        difference: failure.1,
    };
    shrinking.steps.truncate(failure.0 + 1);
    loop {
        let before = shrinking.steps.clone();
        shrinking.drop_chunks().await;
        shrinking.simplify().await;
        if shrinking.steps == before || shrinking.replays >= REPLAYS_MAX {
            return (shrinking.steps, shrinking.difference);
        }
    }
}

struct Shrinking<'a> {
    harness: &'a dyn Harness,
    seed: u64,
    replays: usize,
    steps: Vec<Step>,
    difference: Difference,
}

impl Shrinking<'_> {
    /// Takes these steps if they fail too.
    async fn take_if_failing(&mut self, mut steps: Vec<Step>) -> bool {
        if self.replays >= REPLAYS_MAX {
            return false;
        }
        self.replays += 1;
        match replay(self.harness, self.seed, &steps).await {
            Some((nth, difference)) => {
                steps.truncate(nth + 1);
                self.steps = steps;
                self.difference = difference;
                true
            }
            None => false,
        }
    }

    async fn drop_chunks(&mut self) {
        let mut size = self.steps.len() / 2;
        while size > 0 {
            let mut at = self.steps.len().saturating_sub(size);
            loop {
                let mut steps = self.steps.clone();
                steps.drain(at..(at + size).min(self.steps.len()));
                self.take_if_failing(steps).await;
                if at == 0 {
                    break;
                }
                at = at.saturating_sub(size).min(self.steps.len());
            }
            size /= 2;
        }
    }

    async fn simplify(&mut self) {
        let mut at = self.steps.len();
        while at > 0 {
            at = (at - 1).min(self.steps.len() - 1);
            let mut tried = 0;
            while let Some(step) = simpler(&self.steps[at]).into_iter().nth(tried) {
                let mut steps = self.steps.clone();
                steps[at] = step;
                tried = match self.take_if_failing(steps).await {
                    true => 0,
                    false => tried + 1,
                };
                at = at.min(self.steps.len() - 1);
            }
        }
    }
}

/// Steps that do less than this one.
fn simpler(step: &Step) -> Vec<Step> {
    let mut simpler: Vec<Step> = (simpler_actions(&step.action).into_iter())
        .map(|action| Step {
            action,
            ..step.clone()
        })
        .collect();
    if step.space > 0 {
        simpler.push(Step {
            space: 0,
            ..step.clone()
        });
    }
    simpler
}

fn simpler_actions(action: &Action) -> Vec<Action> {
    match action {
        Action::Enqueue(jobs) => each(jobs, 1, simpler_jobs, Action::Enqueue),
        Action::Settle(leases) => each(
            leases,
            1,
            |lease| {
                each(&lease.settlements, 1, simpler_settlements, |settlements| {
                    super::action::LeasePlan {
                        settlements,
                        ..lease.clone()
                    }
                })
            },
            Action::Settle,
        ),
        Action::Claim(claim) => {
            let mut claims = vec![];
            let mut with = |change: &dyn Fn(&mut super::action::ClaimPlan)| {
                let mut simpler = claim.clone();
                change(&mut simpler);
                if simpler != *claim {
                    claims.push(Action::Claim(simpler));
                }
            };
            with(&|claim| claim.queues.truncate(1));
            with(&|claim| claim.turns = false);
            with(&|claim| claim.alone = false);
            with(&|claim| claim.remote = false);
            with(&|claim| claim.limit = 1);
            with(&|claim| claim.max_bytes = 4 << 20);
            with(&|claim| claim.lease_duration = crate::time::seconds(10));
            claims
        }
        Action::Guarded {
            guard,
            writes,
            effects,
        } => simpler_guarded(*guard, *writes, effects),
        Action::Extend(extend) if !extend.others.is_empty() => {
            vec![Action::Extend(super::action::ExtendPlan {
                others: Vec::new(),
                ..extend.clone()
            })]
        }
        Action::Edit {
            targets,
            edit,
            dry_run,
        } => each(
            targets,
            1,
            |_| Vec::new(),
            |targets| Action::Edit {
                targets,
                edit: *edit,
                dry_run: *dry_run,
            },
        ),
        Action::EditWhere {
            filter,
            edit,
            limit,
            dry_run,
        } if *filter != FilterPlan::default() || *limit < 1_000 => vec![
            Action::EditWhere {
                filter: FilterPlan::default(),
                edit: *edit,
                limit: *limit,
                dry_run: *dry_run,
            },
            Action::EditWhere {
                filter: filter.clone(),
                edit: *edit,
                limit: 1_000,
                dry_run: *dry_run,
            },
        ],
        Action::Advance { by, walk: true } => vec![Action::Advance {
            by: *by,
            walk: false,
        }],
        Action::Next {
            moment,
            off,
            walk: true,
        } => vec![Action::Next {
            moment: *moment,
            off: *off,
            walk: false,
        }],
        _ => Vec::new(),
    }
    .into_iter()
    .filter(|simpler| simpler != action)
    .collect()
}

fn simpler_guarded(guard: GuardPlan, writes: bool, effects: &[EffectPlan]) -> Vec<Action> {
    let make = |effects| Action::Guarded {
        guard,
        writes,
        effects,
    };
    each(effects, 0, |_| Vec::new(), make)
}

/// The same with one item less (if `least` are left), and with one item simpler.
fn each<T: Clone, S>(
    items: &[T],
    least: usize,
    simpler: impl Fn(&T) -> Vec<T>,
    make: impl Fn(Vec<T>) -> S,
) -> Vec<S> {
    let mut all = Vec::new();
    for at in 0..items.len() {
        if items.len() > least {
            let mut fewer = items.to_vec();
            fewer.remove(at);
            all.push(make(fewer));
        }
        for item in simpler(&items[at]) {
            let mut other = items.to_vec();
            other[at] = item;
            all.push(make(other));
        }
    }
    all
}

fn simpler_settlements(plan: &SettlePlan) -> Vec<SettlePlan> {
    let mut all = each(
        &plan.effects,
        0,
        |effect| match effect {
            EffectPlan::Enqueue(job) => simpler_jobs(job)
                .into_iter()
                .map(EffectPlan::Enqueue)
                .collect(),
            EffectPlan::Clear { .. } | EffectPlan::Cancel { .. } => Vec::new(),
        },
        |effects| SettlePlan {
            effects,
            ..plan.clone()
        },
    );
    let bare = SettlePlan {
        result: false,
        error: false,
        stopped: None,
        guard: None,
        ..plan.clone()
    };
    if bare != *plan {
        all.push(bare);
    }
    all
}

/// The job with one field plain.
fn simpler_jobs(job: &JobPlan) -> Vec<JobPlan> {
    let plain = JobPlan::plain(job.no);
    let mut all = vec![plain.clone()];
    macro_rules! fields {
        ($($field:ident)*) => {$(
            all.push(JobPlan { $field: plain.$field.clone(), ..job.clone() });
        )*};
    }
    fields!(
        kind content due expires priority unique group max_attempts retry retention remember names past
        queue
    );
    all.retain(|simpler| simpler != job);
    all
}
