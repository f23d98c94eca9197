//! Laws of capabilities: what is claimed is tested, what is not claimed is refused by name.

use super::LAWS;
use super::case::*;
use crate::engine::Capability::{self, *};
use crate::engine::{Action, Control, Filter, List, ListBy, Select, StatsRequest, WaitFor};
use crate::error::{ErrorKind, Result};
use crate::job::{Effect, Group, Hold, JobId, NewJob, OnRetry, Outcome, Unique, UniquePolicy};
use crate::time::{hours, minutes};

/// `info` names each capability once, in order, and says who the engine is.
pub(super) async fn info_names_capabilities_in_order(case: Case) {
    let info = case.info().await;
    assert!(!info.engine.is_empty() && !info.version.is_empty());
    assert!(info.capabilities.is_sorted(), "{:?}", info.capabilities);
    let mut once = info.capabilities.clone();
    once.dedup();
    assert_eq!(once, info.capabilities);
    assert!(
        info.health.ok,
        "a fresh engine is in health: {:?}",
        info.health
    );
    assert_eq!(info.now, case.clock());
}

/// Each claimed capability has a law that runs only where it is claimed.
pub(super) async fn a_claimed_capability_has_a_law(case: Case) {
    for capability in case.info().await.capabilities {
        assert!(has_a_law(capability), "no law needs {capability:?}");
    }
}

/// An engine that claims a capability claims those that it rests on.
pub(super) async fn a_claimed_capability_has_what_it_rests_on(case: Case) {
    for capability in case.info().await.capabilities {
        let rests_on = capability.rests_on();
        assert!(
            case.claims(rests_on).await,
            "{capability:?} needs {rests_on:?}"
        );
    }
}

// Not in the law itself: the table of laws cannot be a part of what is in the table.
fn has_a_law(capability: Capability) -> bool {
    LAWS.iter().any(|law| law.needs.contains(&capability))
}

/// Each unclaimed capability is refused as `unsupported`.
pub(super) async fn an_unclaimed_capability_answers_unsupported(case: Case) {
    for capability in Capability::ALL {
        if case.claims(&[capability]).await {
            continue;
        }
        if let Some(answer) = use_of(&case, capability).await {
            let error = answer.expect_err("an unclaimed capability is refused");
            assert_eq!(
                error.kind(),
                ErrorKind::Unsupported,
                "{capability:?}: {error}"
            );
        }
    }
}

/// The shortest use of a capability; `None` for one that is a promise about others' answers.
async fn use_of(case: &Case, capability: Capability) -> Option<Result<()>> {
    if let Some(job) = job_that_needs(case, capability) {
        return Some(case.try_enqueue(vec![job]).await.map(drop));
    }
    let answer = match call_that_needs(case, capability).await {
        None => question_that_needs(case, capability).await,
        answer => answer,
    };
    let is_promise = matches!(capability, Import | Suspects | StrictDueOrder);
    assert_eq!(answer.is_none(), is_promise, "no use of {capability:?}");
    answer
}

/// The job whose enqueue needs a capability.
fn job_that_needs(case: &Case, capability: Capability) -> Option<NewJob> {
    let unique = |policy| {
        let (key, hold) = ("k".into(), Hold::default());
        NewJob {
            unique: Some(Unique { key, policy, hold }),
            ..job()
        }
    };
    let new = match capability {
        Delay => job_in(hours(1)),
        Priority => NewJob {
            priority: 0,
            ..job()
        },
        UniqueKeep => unique(UniquePolicy::Keep),
        UniqueReplace => unique(UniquePolicy::Replace),
        UniqueAfter => unique(UniquePolicy::After),
        Debounce => unique(UniquePolicy::Refresh {
            max_wait: minutes(1),
        }),
        Groups => {
            let (key, on_retry) = ("g".into(), OnRetry::Hold);
            NewJob {
                group: Some(Group { key, on_retry }),
                ..job()
            }
        }
        HeldJobs => NewJob {
            wait_for: vec!["n".into()],
            ..job()
        },
        Expiry => NewJob {
            expires_at: Some(case.clock() + hours(1)),
            ..job()
        },
        _ => return None,
    };
    Some(new)
}

/// The answer of a call that changes something and needs a capability.
async fn call_that_needs(case: &Case, capability: Capability) -> Option<Result<()>> {
    let answer = match capability {
        Effects => {
            case.send(job()).await;
            let attempt = case.claim_one().await;
            let mut settlement = attempt.ended(Outcome::Completed);
            settlement.effects = vec![Effect::Enqueue(Box::new(job()))];
            let settled = case.try_settle(attempt.token, vec![settlement]);
            settled.await.map(drop)
        }
        CancelActive => {
            case.send(job()).await;
            let attempt = case.claim_one().await;
            let select = Select::Targets(vec![attempt.id().into()]);
            case.edit_as(select, Action::Cancel, false).await.map(drop)
        }
        EditByFilter => {
            let filter = Filter::default();
            let select = Select::Filter {
                filter,
                cursor: None,
                limit: 1,
            };
            case.edit_as(select, Action::Cancel, false).await.map(drop)
        }
        Records => case
            .try_control(Control::Read { name: "a".into() })
            .await
            .map(drop),
        MaxPending => {
            let name = format!("queue/{QUEUE}");
            let value = Some(crate::engine::RecordValue::Queue(Default::default()));
            case.try_control(Control::Write {
                name,
                expected: 0,
                value,
            })
            .await
            .map(drop)
        }
        QueueLimits => {
            let settings = crate::engine::QueueSettings::new().concurrency(1);
            let name = format!("queue/{QUEUE}");
            let value = Some(crate::engine::RecordValue::Queue(settings));
            let write = Control::Write {
                name,
                expected: 0,
                value,
            };
            case.try_control(write).await.map(drop)
        }
        Shares => {
            let (queue, share) = (QUEUE.into(), "a".into());
            let span = minutes(1);
            case.try_control(Control::BlockShare { queue, share, span })
                .await
                .map(drop)
        }
        NamedLimits => {
            let (name, span) = ("smtp".into(), minutes(1));
            let block = Control::BlockLimit { name, span };
            case.try_control(block).await.map(drop)
        }
        Guards => {
            let guard = crate::engine::Guard::new("offsets", 0);
            let guarded = Control::Guarded {
                guard,
                value: None,
                effects: Vec::new(),
            };
            case.try_control(guarded).await.map(drop)
        }
        Memos => {
            case.send(job()).await;
            let attempt = case.claim_one().await;
            let memo = (attempt.id(), "a".to_owned(), bytes("b"));
            let extend = crate::engine::Extend::new(attempt.token, LEASE_DURATION);
            let extend = extend.memos(vec![memo]);
            let engine = case.engine();
            let kept = engine.extend(&case.namespace, vec![extend]).await;
            kept.map(drop)
        }
        Flows => {
            let alone = case
                .try_enqueue(vec![job().step("order-7", "charge")])
                .await;
            alone.map(drop)
        }
        Schedules => {
            let schedule = super::schedules::every(minutes(1));
            case.try_schedule("beat", 0, Some(schedule)).await.map(drop)
        }
        _ => return None,
    };
    Some(answer)
}

/// The answer of a call that only asks and needs a capability.
async fn question_that_needs(case: &Case, capability: Capability) -> Option<Result<()>> {
    let answer = match capability {
        ListByState => {
            let (by, filter) = (ListBy::All, Filter::default());
            let list = List {
                by,
                filter,
                cursor: None,
                limit: 1,
                payloads: false,
            };
            case.list_as(list).await.map(drop)
        }
        Explain => {
            let targets = vec![JobId::new().into()];
            let engine = case.engine();
            let got = engine.get(&case.namespace, targets, true).await;
            got.map(drop)
        }
        ChangeFeed => wait(case, WaitFor::Changes(None)).await,
        AwaitSettled => wait(case, WaitFor::Settled(vec![JobId::new()])).await,
        History => {
            let request = StatsRequest {
                history: true,
                ..Default::default()
            };
            stats(case, request).await
        }
        Ends => {
            let request = StatsRequest {
                ends: true,
                ..Default::default()
            };
            stats(case, request).await
        }
        _ => return None,
    };
    Some(answer)
}

async fn wait(case: &Case, what: WaitFor) -> Result<()> {
    let now = case.clock();
    case.engine()
        .wait(&case.namespace, what, now)
        .await
        .map(drop)
}

async fn stats(case: &Case, request: StatsRequest) -> Result<()> {
    let engine = case.engine();
    let stats = engine.stats(&case.namespace, request).await;
    stats.map(drop)
}
