//! What happened when, for the report.

use serde::{Deserialize, Serialize};

use super::stories::Case;

/// A round, second by second.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Timeline {
    pub(crate) seconds: Vec<Second>,
    pub(crate) faults: Vec<Span>,
    /// Rests, in milliseconds since the beginning.
    #[serde(default)]
    pub(crate) rests: Vec<(u64, u64)>,
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
        let mut timeline = Self::default();
        for story in case.jobs.values() {
            if let Some(receipt) = story.receipts.first() {
                timeline.second(case, receipt.at).acknowledged += 1;
            }
            for start in &story.starts {
                let second = timeline.second(case, start.at);
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
        timeline.rests = case.rests.iter().map(rest).collect();
        timeline.faults = case
            .faults
            .iter()
            .filter(|fault| fault.done)
            .map(span)
            .collect();
        timeline
    }

    fn second(&mut self, case: &Case, at: u64) -> &mut Second {
        let number = (at.saturating_sub(case.began) / 1_000_000) as usize;
        if self.seconds.len() <= number {
            self.seconds.resize_with(number + 1, Second::default);
        }
        &mut self.seconds[number]
    }
}
