//! What producers and workers do: enqueue, claim, extend, settle.

use std::time::Duration;

use super::case::*;
use crate::engine::{
    Claim, ClaimMode, Claimed, EnqueueVerdict, Extend, ExtendVerdict, LeaseReport, Receipt, Settle,
    SettleVerdict, Settlement, Token,
};
use crate::error::{Error, Result};
use crate::job::{JobId, JobState, NewJob, Outcome};
use crate::time::Timestamp;

/// Enqueue.
impl Case {
    pub(super) async fn try_enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Receipt>> {
        let sent = jobs.len();
        let answer = self.engine().enqueue(&self.namespace, jobs).await?;
        assert_eq!(answer.receipts.len(), sent, "one receipt per job");
        Ok(answer.receipts)
    }

    /// Sends jobs; answers a receipt of each.
    pub(super) async fn send_all(&self, jobs: Vec<NewJob>) -> Vec<Receipt> {
        self.try_enqueue(jobs).await.expect("enqueue")
    }

    /// Sends a job; answers its receipt.
    pub(super) async fn send(&self, job: NewJob) -> Receipt {
        self.send_all(vec![job]).await[0]
    }

    /// Sends a job; answers the verdict.
    pub(super) async fn verdict(&self, job: NewJob) -> EnqueueVerdict {
        self.send(job).await.verdict
    }

    /// Stores a job that must be new; answers its id.
    pub(super) async fn enqueue(&self, job: NewJob) -> JobId {
        self.enqueue_all(vec![job]).await[0]
    }

    /// Stores jobs that must be new; answers their ids in order.
    pub(super) async fn enqueue_all(&self, jobs: Vec<NewJob>) -> Vec<JobId> {
        let receipts = self.send_all(jobs).await;
        let id = |receipt: Receipt| {
            assert_eq!(receipt.verdict, EnqueueVerdict::Created, "{receipt:?}");
            receipt.id
        };
        receipts.into_iter().map(id).collect()
    }

    pub(super) async fn enqueue_error(&self, job: NewJob) -> Error {
        let answer = self.try_enqueue(vec![job]).await;
        answer.expect_err("a malformed job is refused")
    }
}

/// Claim and extend.
impl Case {
    /// A claim of this case's worker, to be changed where a law wants it different.
    pub(super) fn wants(&self, limit: usize) -> Claim {
        Claim::new(self.worker, QUEUE, limit)
    }

    pub(super) async fn claim_as(&self, claim: Claim) -> Claimed {
        self.engine()
            .claim(&self.namespace, claim)
            .await
            .expect("claim")
    }

    pub(super) async fn claim_error(&self, claim: Claim) -> Error {
        let answer = self.engine().claim(&self.namespace, claim).await;
        answer.expect_err("a malformed claim is refused")
    }

    pub(super) async fn claim(&self, limit: usize) -> Vec<Attempt> {
        attempts(&self.claim_as(self.wants(limit)).await)
    }

    /// Claims one job, which must be there.
    pub(super) async fn claim_one(&self) -> Attempt {
        let mut claimed = self.claim(1).await;
        assert_eq!(claimed.len(), 1, "one job is ready to be claimed");
        claimed.remove(0)
    }

    /// Claims one job of a worker that runs nothing else.
    pub(super) async fn claim_alone(&self) -> Vec<Attempt> {
        let alone = Claim {
            mode: ClaimMode::Alone,
            ..self.wants(64)
        };
        attempts(&self.claim_as(alone).await)
    }

    /// Claims up to `limit` jobs; answers their ids in order.
    pub(super) async fn claim_ids(&self, limit: usize) -> Vec<JobId> {
        let claimed = self.claim(limit).await;
        claimed.iter().map(Attempt::id).collect()
    }

    /// Claims as a worker does that polls whether there is more.
    pub(super) async fn wake_at(&self) -> Option<Timestamp> {
        self.claim_as(self.wants(1)).await.wake_at
    }

    /// Claims and completes until nothing is ready; answers the ids in order.
    pub(super) async fn drain(&self) -> Vec<JobId> {
        let mut drained = Vec::new();
        loop {
            let claimed = self.claim(1_000).await;
            if claimed.is_empty() {
                return drained;
            }
            for attempt in claimed {
                self.complete(&attempt).await;
                drained.push(attempt.id());
            }
        }
    }

    /// Completes all that is ready, the jobs of a lease in one call.
    pub(super) async fn drain_together(&self) {
        loop {
            let claimed = self.claim(1_000).await;
            if claimed.is_empty() {
                return;
            }
            for lease in claimed.chunk_by(|one, next| one.token == next.token) {
                let ended = |attempt: &Attempt| attempt.ended(Outcome::Completed);
                let settlements = lease.iter().map(ended).collect();
                let verdicts = self.try_settle(lease[0].token, settlements).await;
                for verdict in verdicts.expect("settle") {
                    let is_completed = matches!(
                        verdict,
                        SettleVerdict::Settled {
                            state: JobState::Completed,
                            ..
                        }
                    );
                    assert!(is_completed, "{verdict:?}");
                }
            }
        }
    }

    pub(super) async fn extend(&self, token: Token, jobs: &[JobId]) -> ExtendVerdict {
        self.extend_as(Extend {
            token,
            lease_duration: LEASE_DURATION,
            log: Vec::new(),
            memos: Vec::new(),
            progress: Vec::new(),
            jobs: jobs.to_vec(),
        })
        .await
    }

    pub(super) async fn extend_as(&self, extend: Extend) -> ExtendVerdict {
        let answer = self.engine().extend(&self.namespace, vec![extend]).await;
        let mut verdicts = answer.expect("extend").verdicts;
        assert_eq!(verdicts.len(), 1, "one verdict per lease");
        verdicts.remove(0)
    }
}

/// Settle.
impl Case {
    pub(super) async fn try_settle(
        &self,
        token: Token,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<SettleVerdict>> {
        let sent = settlements.len();
        let settle = Settle {
            leases: vec![LeaseReport::new(token, settlements)],
        };
        let mut answer = self.engine().settle(&self.namespace, settle).await?;
        assert_eq!(answer.verdicts.len(), 1, "one list of verdicts per lease");
        let verdicts = answer.verdicts.remove(0);
        assert_eq!(verdicts.len(), sent, "one verdict per settlement");
        Ok(verdicts)
    }

    pub(super) async fn settle_as(&self, token: Token, settlement: Settlement) -> SettleVerdict {
        let verdicts = self.try_settle(token, vec![settlement]).await;
        verdicts.expect("settle").remove(0)
    }

    pub(super) async fn settle(&self, attempt: &Attempt, outcome: Outcome) -> SettleVerdict {
        self.settle_as(attempt.token, attempt.ended(outcome)).await
    }

    /// Settles under a lease that must be valid; answers the state of the job after.
    pub(super) async fn end(&self, attempt: &Attempt, outcome: Outcome) -> JobState {
        self.end_as(attempt, attempt.ended(outcome)).await
    }

    pub(super) async fn end_as(&self, attempt: &Attempt, settlement: Settlement) -> JobState {
        match self.settle_as(attempt.token, settlement).await {
            SettleVerdict::Settled { state, .. } => state,
            other => panic!("the lease of {} is valid, got {other:?}", attempt.id()),
        }
    }

    pub(super) async fn complete(&self, attempt: &Attempt) {
        let state = self.end(attempt, Outcome::Completed).await;
        assert_eq!(state, JobState::Completed, "a completed job is completed");
    }

    /// Fails an attempt, to be tried again after a span.
    pub(super) async fn retry(&self, attempt: &Attempt, after: Duration) -> JobState {
        self.end(attempt, Outcome::Retry { after: Some(after) })
            .await
    }
}
