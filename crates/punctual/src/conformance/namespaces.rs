//! Laws of namespaces: each sees nothing of any other.

use super::case::*;
use super::polls::at_once;
use crate::engine::{
    Action, Control, Controlled, EditVerdict, EnqueueVerdict, ExtendVerdict, Filter, ListBy,
    QueueSettings, RecordValue, Select, SettleVerdict, WaitFor, Waited,
};
use crate::job::{JobState, NewJob, Outcome, Unique};
use crate::time::hours;

fn with_key() -> NewJob {
    let (key, policy, hold) = ("k".into(), Default::default(), Default::default());
    NewJob {
        unique: Some(Unique { key, policy, hold }),
        ..job()
    }
}

/// A job of one namespace is neither read, listed, counted nor claimed in another.
pub(super) async fn a_job_is_seen_in_its_namespace_only(case: Case) {
    let id = case.enqueue(with_key()).await;
    let case = case.tenant("other");
    assert!(case.is_unknown(id).await);
    assert_eq!(case.holder("k").await, None);
    assert_eq!(case.list_by(ListBy::All, Filter::default(), 10).await, []);
    assert_eq!(case.listed(JobState::Ready).await, []);
    assert_eq!(case.stats().await.queues, []);
    let claimed = case.claim_as(case.wants(10)).await;
    assert_eq!((claimed.leases, claimed.wake_at), (vec![], None));
    let case = case.tenant("default");
    assert_eq!(case.claim_ids(10).await, [id]);
}

/// The same id and the same unique key are free in another namespace.
pub(super) async fn ids_and_keys_are_of_a_namespace(case: Case) {
    let sent = with_key();
    case.enqueue(sent.clone()).await;
    let case = case.tenant("other");
    let other = NewJob {
        payload: bytes("[]"),
        ..sent.clone()
    };
    assert_eq!(case.verdict(other).await, EnqueueVerdict::Created);
    case.cancel(by_key("k")).await;
    let case = case.tenant("default");
    assert_eq!(case.state(sent.id).await, JobState::Ready);
}

/// An edit in one namespace, by id or filter, touches nothing of another.
pub(super) async fn an_edit_is_of_a_namespace(case: Case) {
    let id = case.enqueue(job()).await;
    let case = case.tenant("other");
    assert_eq!(case.cancel(id).await, EditVerdict::NotFound);
    let filter = Filter::default();
    let select = Select::Filter {
        filter,
        cursor: None,
        limit: 100,
    };
    let edited = case
        .edit_as(select, Action::Cancel, false)
        .await
        .expect("edit");
    assert_eq!(edited.matched, 0);
    let queue = QUEUE.into();
    case.control(Control::Purge {
        queue,
        cursor: None,
        limit: 100,
    })
    .await;
    let case = case.tenant("default");
    assert_eq!(case.state(id).await, JobState::Ready);
}

/// A token of one namespace extends and settles nothing in another.
pub(super) async fn a_token_is_of_a_namespace(case: Case) {
    let attempt = case.active(job()).await;
    let case = case.tenant("other");
    assert_eq!(
        case.extend(attempt.token, &[]).await,
        ExtendVerdict::LeaseLost
    );
    let verdict = case.settle(&attempt, Outcome::Completed).await;
    assert_eq!(verdict, SettleVerdict::LeaseLost);
    let case = case.tenant("default");
    case.complete(&attempt).await;
}

/// A pause, a bound and a record of one namespace bind nothing in another.
pub(super) async fn control_is_of_a_namespace(case: Case) {
    case.pause().await;
    case.configure(QueueSettings::new().max_pending(0), 0).await;
    let value = Some(RecordValue::Opaque(bytes("{}")));
    case.control(Control::Write {
        name: "a".into(),
        expected: 0,
        value,
    })
    .await;
    let case = case.tenant("other");
    let id = case.enqueue(job()).await;
    assert_eq!(case.claim_ids(10).await, [id]);
    let read = case.control(Control::Read { name: "a".into() }).await;
    assert_eq!(read, Controlled::Record(None));
    assert_eq!(case.names("").await, [""; 0]);
}

/// A job of one namespace wakes no waiter in another.
pub(super) async fn a_wakeup_is_of_a_namespace(case: Case) {
    let wait = case.waits(WaitFor::Work(vec![QUEUE.into()]));
    let case = case.tenant("other");
    case.enqueue(job()).await;
    case.advance(hours(1)).await;
    assert_eq!(at_once(wait).await, Waited::TimedOut);
}

/// Workers are listed in the namespace that they claim in.
pub(super) async fn workers_are_listed_in_their_namespace(case: Case) {
    case.active(job()).await;
    let seen = case.stats().await.workers;
    assert_eq!((seen.len(), seen[0].leased), (1, 1));
    let case = case.tenant("other");
    assert_eq!(case.stats().await.workers, []);
    case.claim(1).await;
    let seen = case.stats().await.workers;
    assert_eq!(
        (seen.len(), seen[0].leased),
        (1, 0),
        "the same worker, another tenant"
    );
}

/// A nonce of one namespace answers no lease of another, to the same worker either.
pub(super) async fn a_nonce_is_of_a_namespace(case: Case) {
    case.enqueue(job()).await;
    let claim = case.wants(1);
    let mine = case.claim_as(claim.clone()).await;
    assert_eq!(mine.leases.len(), 1);
    let case = case.tenant("other");
    let others = case.claim_as(claim).await;
    assert_eq!((others.leases, others.wake_at), (vec![], None));
}
