//! The opts of a job, as MessagePack: each field is written and read here.

use std::time::Duration;

use punctual::{Group, Hold, NewJob, OnRetry, Result, RetryPolicy, Unique, UniquePolicy};

use super::mp::{MapWriter, Mp, instant};
use super::numbers::{
    CONTENT_TYPE_DEFAULT, CONTENT_TYPES, MAX_ATTEMPTS_DEFAULT, RETRY_EXPONENTIAL, RETRY_FIXED,
    RETRY_LINEAR, RETRY_LIST, SPEC_CONTENT_TYPE,
};
use super::record::{number_32, texts};
use super::{damaged, flow, micros};

/// What mostly differs from job to job, in this order and before all else: the functions cut it
/// off, and read the rest once for all jobs that have the same.
pub(super) fn put_own(options: &mut MapWriter, job: &NewJob) {
    options.put_some("ex", job.expires_at.map(instant));
    options.put_some("u", job.unique.as_ref().map(|unique| &unique.key));
    options.put_some("g", job.group.as_ref().map(|group| &group.key));
    options.put_some("fl", flow::place(job));
    options.put_some("sh", job.share.as_ref());
}

/// What only the worker reads; answers the flags that say its content type, which stands in the
/// opts only if it has no number.
#[must_use]
pub(super) fn put_first(options: &mut MapWriter, job: &NewJob) -> u8 {
    let number = number_of(&job.content_type);
    if number.is_none() && job.content_type != CONTENT_TYPE_DEFAULT {
        options.put("ct", &job.content_type);
    }
    if !job.headers.is_empty() {
        let pair = |(name, value): &(String, String)| [Mp::from(name), Mp::from(value)];
        options.put("hd", job.headers.iter().flat_map(pair).collect::<Vec<_>>());
    }
    if job.max_attempts != MAX_ATTEMPTS_DEFAULT {
        options.put("ma", job.max_attempts);
    }
    if job.retry != RetryPolicy::default() {
        options.put("rt", retry_of(&job.retry));
    }
    options.put_some("to", job.timeout.map(micros));
    number.unwrap_or(0) * SPEC_CONTENT_TYPE
}

/// The number of a content type, if it has one.
fn number_of(content_type: &str) -> Option<u8> {
    let index = CONTENT_TYPES.iter().position(|it| *it == content_type)?;
    u8::try_from(index + 1).ok()
}

/// What the functions look into besides; behind it stands what an import knows.
pub(super) fn put_second(options: &mut MapWriter, job: &NewJob) {
    if let Some(Unique { policy, hold, .. }) = &job.unique {
        options.put(
            "up",
            match policy {
                UniquePolicy::Keep => 0_u8,
                UniquePolicy::Replace => 1,
                UniquePolicy::After => 2,
                UniquePolicy::Refresh { .. } => 3,
            },
        );
        if let UniquePolicy::Refresh { max_wait } = policy {
            options.put("um", micros(*max_wait));
        }
        match hold {
            Hold::UntilSettled => {}
            Hold::UntilStarted => {
                options.put("uh", 0_u8);
            }
            Hold::For(span) => {
                options.put("uh", micros(*span).saturating_add(1));
            }
        }
    }
    if let Some(Group {
        on_retry: OnRetry::Pass,
        ..
    }) = &job.group
    {
        options.put("gp", 1_u8);
    }
    if !job.retention.is_zero() {
        options.put("rn", micros(job.retention));
    }
    options.put_some("mc", job.max_crashes);
    options.put_some("rm", job.remember.map(micros));
    if !job.wait_for.is_empty() {
        options.put("w", names(&job.wait_for));
    }
    if !job.limits.is_empty() {
        options.put("li", names(&job.limits));
    }
    if job.cost != 1 {
        options.put("co", job.cost);
    }
}

/// Names without repeats, in the order of their first.
fn names(names: &[String]) -> Mp {
    let mut once: Vec<&String> = Vec::with_capacity(names.len());
    for name in names {
        if !once.contains(&name) {
            once.push(name);
        }
    }
    Mp::List(once.into_iter().map(Mp::from).collect())
}

fn retry_of(policy: &RetryPolicy) -> Mp {
    let millis = |span: &Duration| Mp::from(span.as_millis() as u64);
    Mp::List(match policy {
        RetryPolicy::Exponential {
            base,
            factor,
            cap,
            jitter,
        } => vec![
            RETRY_EXPONENTIAL.into(),
            millis(base),
            Mp::Float(*factor),
            millis(cap),
            (*jitter).into(),
        ],
        RetryPolicy::Fixed { span, jitter } => {
            vec![RETRY_FIXED.into(), millis(span), (*jitter).into()]
        }
        RetryPolicy::Linear { base, cap, jitter } => {
            vec![
                RETRY_LINEAR.into(),
                millis(base),
                millis(cap),
                (*jitter).into(),
            ]
        }
        RetryPolicy::List(spans) => [RETRY_LIST.into()]
            .into_iter()
            .chain(spans.iter().map(millis))
            .collect(),
        // A policy of a later version cannot get here: the contract and this crate are of one
        // version.
        _ => vec![],
    })
}

/// What a job's flags and opts say; what they leave out stands at its default.
pub(super) fn read(job: &mut NewJob, flags: u8, options: &Mp) -> Result<()> {
    if let Some(index) = usize::from(flags / SPEC_CONTENT_TYPE).checked_sub(1) {
        let content_type = CONTENT_TYPES.get(index).ok_or_else(damaged)?;
        job.content_type = (*content_type).to_owned();
    }
    if let Some(content_type) = options.get("ct").some(Mp::text)? {
        job.content_type = content_type;
    }
    job.headers = headers(options.get("hd"))?;
    job.unique = unique(options)?;
    job.group = group(options)?;
    job.share = options.get("sh").some(Mp::text)?;
    job.limits = texts(options.get("li"))?;
    job.cost = options.get("co").some(number_32)?.unwrap_or(1);
    if let Some(most) = options.get("ma").some(number_32)? {
        job.max_attempts = most;
    }
    job.max_crashes = options.get("mc").some(number_32)?;
    job.retry = options.get("rt").some(retry)?.unwrap_or_default();
    job.timeout = options.get("to").some(span)?;
    job.retention = options.get("rn").some(span)?.unwrap_or_default();
    job.remember = options.get("rm").some(span)?;
    Ok(())
}

fn span(value: &Mp) -> Result<Duration> {
    Ok(Duration::from_micros(value.number()?))
}

fn headers(value: &Mp) -> Result<Vec<(String, String)>> {
    let pairs = value.list()?.chunks(2).map(|pair| match pair {
        [name, value] => Ok((name.text()?, value.text()?)),
        _ => Err(damaged()),
    });
    pairs.collect()
}

fn unique(options: &Mp) -> Result<Option<Unique>> {
    let Some(key) = options.get("u").some(Mp::text)? else {
        return Ok(None);
    };
    let policy = match options.get("up") {
        Mp::Nil | Mp::Int(0) => UniquePolicy::Keep,
        Mp::Int(1) => UniquePolicy::Replace,
        Mp::Int(2) => UniquePolicy::After,
        Mp::Int(3) => UniquePolicy::Refresh {
            max_wait: Duration::from_micros(options.get("um").number()?),
        },
        _ => return Err(damaged()),
    };
    let hold = match options.get("uh").some(Mp::number)? {
        None => Hold::UntilSettled,
        Some(0) => Hold::UntilStarted,
        Some(span) => Hold::For(Duration::from_micros(span - 1)),
    };
    Ok(Some(Unique::new(key).policy(policy).hold(hold)))
}

fn group(options: &Mp) -> Result<Option<Group>> {
    let Some(key) = options.get("g").some(Mp::text)? else {
        return Ok(None);
    };
    let on_retry = match options.get("gp").is_set() {
        true => OnRetry::Pass,
        false => OnRetry::Hold,
    };
    Ok(Some(Group::new(key).on_retry(on_retry)))
}

fn retry(value: &Mp) -> Result<RetryPolicy> {
    let millis = |value: &Mp| value.number().map(Duration::from_millis);
    let [kind, fields @ ..] = value.list()? else {
        return Err(damaged());
    };
    let kind = u8::try_from(kind.number()?).map_err(|_| damaged())?;
    Ok(match (kind, fields) {
        (RETRY_EXPONENTIAL, [base, factor, cap, jitter]) => RetryPolicy::Exponential {
            base: millis(base)?,
            factor: factor.float()?,
            cap: millis(cap)?,
            jitter: jitter.is_set(),
        },
        (RETRY_FIXED, [span, jitter]) => RetryPolicy::Fixed {
            span: millis(span)?,
            jitter: jitter.is_set(),
        },
        (RETRY_LINEAR, [base, cap, jitter]) => RetryPolicy::Linear {
            base: millis(base)?,
            cap: millis(cap)?,
            jitter: jitter.is_set(),
        },
        (RETRY_LIST, spans) => RetryPolicy::List(spans.iter().map(millis).collect::<Result<_>>()?),
        _ => return Err(damaged()),
    })
}
