//! Laws over random schedules: which of their instants run, after outages and pauses too, is as a
//! model says.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use super::case::*;
use super::draw::Draw;
use super::schedules::{minute, schedule};
use crate::engine::Claim;
use crate::schedule::{Missed, Overlap, Schedule, SpecBuilder};
use crate::time::{Timestamp, hours, seconds};

const HISTORIES: u64 = 12;
/// Instants of a schedule, one a minute.
const INSTANTS: u64 = 48;
/// Seconds that an instant may be late.
const GRACE: u64 = 30;

/// What became of the instants of a schedule so far.
struct Model {
    overlap: Overlap,
    missed: Missed,
    is_paused: bool,
    /// Runs that wait for an earlier one to end.
    buffered: VecDeque<u64>,
    ready: VecDeque<u64>,
    active: usize,
    fired: u64,
    /// Instants that did not run.
    passed_over: u64,
}

impl Model {
    /// The engine meets these instants so many seconds after the last of them.
    fn meet(&mut self, instants: RangeInclusive<u64>, after: u64) {
        let now = *instants.end();
        for instant in instants {
            let late = 60 * (now - instant) + after;
            let is_missed = match self.missed {
                Missed::All { max } => now - instant >= u64::from(max),
                Missed::Skip { .. } => late > GRACE,
                Missed::Latest { .. } => late > GRACE && instant != now,
            };
            let is_on_its_way = self.active + self.ready.len() > 0;
            match self.overlap {
                _ if is_missed || self.is_paused => self.passed_over += 1,
                Overlap::Skip if is_on_its_way => self.passed_over += 1,
                Overlap::BufferAll if is_on_its_way => {
                    self.buffered.push_back(instant);
                    self.fired += 1;
                }
                _ => {
                    self.ready.push_back(instant);
                    self.fired += 1;
                }
            }
        }
    }

    fn claim(&mut self, most: usize) -> Vec<Timestamp> {
        let claimed: Vec<_> = (0..most).map_while(|_| self.ready.pop_front()).collect();
        self.active += claimed.len();
        claimed.into_iter().map(minute).collect()
    }

    fn end(&mut self) {
        self.active -= 1;
        if self.active + self.ready.len() == 0 {
            self.ready.extend(self.buffered.pop_front());
        }
    }
}

/// Each instant runs once, is passed over as the policies say, or is to come.
pub(super) async fn random_schedules_agree_with_a_model(case: Case) {
    for seed in 0..HISTORIES {
        let case = case.another().await;
        let mut draw = Draw(seed);
        let grace = seconds(GRACE);
        let mut model = Model {
            overlap: draw.one(&[Overlap::Skip, Overlap::Allow, Overlap::BufferAll]),
            missed: draw.one(&[
                Missed::Latest { grace },
                Missed::All { max: 3 },
                Missed::Skip { grace },
            ]),
            is_paused: false,
            buffered: VecDeque::new(),
            ready: VecDeque::new(),
            active: 0,
            fired: 0,
            passed_over: 0,
        };
        let spec = SpecBuilder {
            at: (0..INSTANTS).map(minute).collect(),
            ..SpecBuilder::default()
        };
        let beat = Schedule {
            overlap: model.overlap,
            missed: model.missed,
            ..schedule(spec)
        };
        case.write("beat", beat).await;
        let mut running = Vec::new();
        let mut next = 0;
        while next < INSTANTS {
            match draw.below(8) {
                // With many at once there was an outage.
                few @ 0..=3 => {
                    let more = draw.below(if few == 3 { 9 } else { 2 });
                    next = pass(&case, &mut model, &mut draw, next, next + more).await;
                }
                4 | 5 => {
                    let claim = Claim {
                        lease_duration: hours(2),
                        ..case.wants(2)
                    };
                    let claimed = attempts(&case.claim_as(claim).await);
                    let instants = claimed.iter().map(instant_of);
                    let instants: Vec<_> = instants.collect();
                    assert_eq!(instants, model.claim(2), "history {seed}, minute {next}");
                    running.extend(claimed);
                }
                6 if !running.is_empty() => {
                    let nth = draw.below(running.len() as u64);
                    case.complete(&running.remove(nth as usize)).await;
                    model.end();
                }
                7 => {
                    model.is_paused = !model.is_paused;
                    let is_paused = model.is_paused;
                    case.change(|schedule| schedule.paused = is_paused).await;
                }
                _ => {}
            }
            let status = case.beat().await;
            let found = (status.fired, status.skipped + status.missed);
            let expected = (model.fired, model.passed_over);
            assert_eq!(found, expected, "history {seed}, minute {next}: {status:?}");
        }
        let status = case.beat().await;
        assert!(status.ended && status.pending.is_none(), "{status:?}");
    }
}

/// The clock moves to a minute, and the engine meets the instants up to it; the next one.
async fn pass(case: &Case, model: &mut Model, draw: &mut Draw, from: u64, to: u64) -> u64 {
    let after = draw.one(&[0, 45]);
    let to = to.min(INSTANTS - 1);
    case.set_time(minute(to) + seconds(after)).await;
    case.do_all().await;
    model.meet(from..=to, after);
    to + 1
}

fn instant_of(attempt: &Attempt) -> Timestamp {
    let run = attempt.job.schedule.as_ref();
    run.expect("a run names its schedule").at
}
