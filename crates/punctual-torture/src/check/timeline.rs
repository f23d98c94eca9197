//! What happened when, for the report.

use serde::{Deserialize, Serialize};

use super::job_timelines::Case;

/// A round, second by second.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Timeline {
    pub(crate) seconds: Vec<Second>,
    pub(crate) faults: Vec<Span>,
    /// Quiet periods, in milliseconds since the beginning.
    #[serde(default)]
    pub(crate) quiet_periods: Vec<(u64, u64)>,
}

/// One second.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Second {
    /// Enqueues that were acknowledged.
    pub(crate) acknowledged: u64,
    /// Handlers that started.
    pub(crate) started: u64,
    /// The worst lateness of a first attempt, in microseconds.
    pub(crate) worst: u64,
}

/// A fault, in milliseconds since the beginning.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Span {
    pub(crate) id: String,
    pub(crate) what: String,
    pub(crate) from: u64,
    pub(crate) until: u64,
}

impl Timeline {
    pub(crate) fn of(case: &Case) -> Self {
        let mut of_round = Self::default();
        for timeline in case.jobs.values() {
            if let Some(receipt) = timeline.receipts.first() {
                of_round.second(case, receipt.at).acknowledged += 1;
            }
            for start in &timeline.starts {
                let second = of_round.second(case, start.at);
                second.started += 1;
                if start.attempt == 1 {
                    second.worst = second.worst.max(start.wall.saturating_sub(start.due));
                }
            }
        }
        let since = |at: u64| at.min(case.ended).saturating_sub(case.began) / 1_000;
        let span = |fault: &super::FaultSpan| Span {
            id: fault.id.clone(),
            what: fault.what.clone(),
            from: since(fault.from),
            until: since(fault.until),
        };
        let rest = |(from, until): &(u64, u64)| (since(*from), since(*until));
        of_round.quiet_periods = case.quiet_periods.iter().map(rest).collect();
        of_round.faults = case
            .faults
            .iter()
            .filter(|fault| fault.done)
            .map(span)
            .collect();
        of_round
    }

    fn second(&mut self, case: &Case, at: u64) -> &mut Second {
        let number = (at.saturating_sub(case.began) / 1_000_000) as usize;
        if self.seconds.len() <= number {
            self.seconds.resize_with(number + 1, Second::default);
        }
        &mut self.seconds[number]
    }
}
