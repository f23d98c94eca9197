//! `punctual queues limit`: how many jobs of a queue are active, and how many start in a span.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::ValueEnum;
use punctual::engine::{ClosedLimit, LimitStats, Rate, ShareSettings};
use punctual::queue::QueueLimits;
use punctual::time::{Timestamp, exact_span, format_span, parse_span};
use punctual::{JobState, Queue};

use super::stats;
use crate::args::Session;
use crate::failure::{Failure, Result};
use crate::output::{Object, ago, object, raw};

/// Show or set how many jobs of a queue may be active, and how many may start in a span of time
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual queues limit mail                                 shows the limits and how they stand
  punctual queues limit mail --concurrency 50                at most 50 active, by all workers together
  punctual queues limit mail --rate 1000/1m                  at most 1,000 starts in any minute
  punctual queues limit mail --rate 10/1s --kind smooth      one start each 100ms, and a burst of 1
  punctual queues limit mail --rate none                     no rate any more; the concurrency stays
  punctual queues limit mail --share-concurrency 4           at most 4 active of each share (customer)
  punctual queues limit mail --share-rate 10/1s --weight acme=5   acme gets 5 turns for one of another
  punctual queues limit mail --share-max-pending 1000        at most 1,000 jobs of a share wait; one more is refused
  punctual queues limit mail --none                          no limit any more

A job that waits at a limit counts no attempt and is not late. A lower limit stops new starts only.")]
pub(crate) struct Args {
    #[arg(value_name = "QUEUE")]
    queue: String,

    /// Jobs that may be active at once, or none
    #[arg(long, value_name = "N", value_parser = concurrency_of)]
    concurrency: Option<Choice<u64>>,

    /// Jobs that may start in a span, such as 20/1s, or none
    #[arg(long, value_name = "N/SPAN", value_parser = rate_of)]
    rate: Option<Choice<(u64, Duration)>>,

    /// How a rate lets jobs start; window by default
    #[arg(long, requires = "rate")]
    kind: Option<Kind>,

    /// Starts of a smooth rate that may come early; a tenth of the rate by default
    #[arg(long, value_name = "N", requires = "rate")]
    burst: Option<u64>,

    /// Jobs of one share that may be active at once, or none
    #[arg(long, value_name = "N", value_parser = concurrency_of)]
    share_concurrency: Option<Choice<u64>>,

    /// Jobs of one share that may start in a span, such as 10/1s, or none
    #[arg(long, value_name = "N/SPAN", value_parser = rate_of)]
    share_rate: Option<Choice<(u64, Duration)>>,

    /// How the rate of a share lets jobs start; window by default
    #[arg(long, value_name = "KIND", requires = "share_rate")]
    share_kind: Option<Kind>,

    /// Held, scheduled and ready jobs that one share may have, or none; one more is refused
    #[arg(long, value_name = "N", value_parser = concurrency_of)]
    share_max_pending: Option<Choice<u64>>,

    /// Turns that a share gets for one of a share without a weight, 1 to 1000; 1 takes it off
    #[arg(long, value_name = "SHARE=N", value_parser = weight_of)]
    weight: Vec<(String, u32)>,

    /// Write only if the settings of the queue have this version, as `-o json` shows; 0: never set
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u64>,

    /// Take all limits and weights off
    #[arg(long, visible_alias = "remove", conflicts_with_all = ["concurrency", "rate", "share_concurrency", "share_rate", "share_max_pending", "weight"])]
    none: bool,
}

/// How a rate lets jobs start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// At most N in any span of that length
    Window,
    /// One each SPAN / N, and a burst after a quiet time
    Smooth,
}

/// A limit, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Choice<T>(Option<T>);

fn concurrency_of(text: &str) -> std::result::Result<Choice<u64>, String> {
    if text == "none" {
        return Ok(Choice(None));
    }
    let number = text.parse().map_err(|_| "use 1 to 1000000, or none");
    Ok(Choice(Some(number?)))
}

fn rate_of(text: &str) -> std::result::Result<Choice<(u64, Duration)>, String> {
    match text {
        "none" => Ok(Choice(None)),
        text => starts_of(text).map(|rate| Choice(Some(rate))),
    }
}

/// Reads a weight such as `acme=5`.
fn weight_of(text: &str) -> std::result::Result<(String, u32), String> {
    let wrong = || "use a share and 1 to 1000, such as acme=5".to_owned();
    let (share, weight) = text.rsplit_once('=').ok_or_else(wrong)?;
    let weight = weight.parse().map_err(|_| wrong())?;
    Ok((share.to_owned(), weight))
}

/// Reads a rate such as `20/1s`.
pub(crate) fn starts_of(text: &str) -> std::result::Result<(u64, Duration), String> {
    let wrong = || "use a number and a span, such as 20/1s or 1000/1m".to_owned();
    let (starts, per) = text.split_once('/').ok_or_else(wrong)?;
    let starts = starts.trim().parse().map_err(|_| wrong())?;
    // A unit alone is one of it.
    let per = per.trim();
    let span = match per.starts_with(|first: char| first.is_ascii_digit()) {
        true => parse_span(per),
        false => parse_span(&format!("1{per}")),
    };
    Ok((starts, span.map_err(|_| wrong())?))
}

impl Kind {
    /// A rate of that kind.
    pub(crate) fn rate(
        self,
        (starts, per): (u64, Duration),
        burst: Option<u64>,
    ) -> std::result::Result<Rate, String> {
        match (self, burst) {
            (Self::Window, None) => Ok(Rate::window(starts, per)),
            (Self::Window, Some(_)) => {
                Err("a window has no burst; leave --burst out, or use --kind smooth".into())
            }
            (Self::Smooth, None) => Ok(Rate::smooth(starts, per)),
            (Self::Smooth, Some(burst)) => Ok(Rate::smooth(starts, per).burst(burst)),
        }
    }
}

impl Args {
    pub(super) async fn run(self, session: &Session) -> Result<()> {
        let queue = Queue::new(&session.engine).namespace(session.namespace.clone());
        let limits = || match self.if_version {
            Some(version) => queue.limits(&self.queue).if_version(version),
            None => queue.limits(&self.queue),
        };
        if self.if_version.is_some() && !self.none && !self.sets_any() {
            let what = "if-version is of a write; name a limit, or use --none";
            return Err(Failure::usage(what));
        }
        if self.none {
            let removed = limits().remove().await?;
            return self.removed(session, removed);
        }
        if self.sets_any() {
            let known = limits().get().await?.unwrap_or_default();
            let concurrency = self
                .concurrency
                .map_or(known.concurrency, |choice| choice.0);
            let rate = match self.rate {
                None => known.rate,
                Some(Choice(None)) => None,
                Some(Choice(Some(starts))) => Some(self.rate(starts)?),
            };
            let shares = self.shares(limits().share_settings().await?)?;
            if concurrency.is_none() && rate.is_none() && shares == ShareSettings::new() {
                let removed = limits().remove().await?;
                return self.removed(session, removed);
            }
            set(limits().per_share(shares), concurrency, rate).await?;
            let durability = session.durability().await?;
            session.announce_durability(durability);
        }
        self.show(session).await
    }

    /// Whether it sets a limit.
    pub(super) fn sets_any(&self) -> bool {
        let shares = self.share_concurrency.is_some() || self.share_rate.is_some();
        let shares = shares || self.share_max_pending.is_some();
        shares || !self.weight.is_empty() || self.concurrency.is_some() || self.rate.is_some()
    }

    /// The new settings of shares, from those of now.
    fn shares(&self, mut shares: ShareSettings) -> Result<ShareSettings> {
        if let Some(Choice(concurrency)) = self.share_concurrency {
            shares.concurrency = concurrency;
        }
        if let Some(Choice(starts)) = self.share_rate {
            let kind = self.share_kind.unwrap_or(Kind::Window);
            let rate = starts.map(|starts| kind.rate(starts, None)).transpose();
            shares.rate = rate.map_err(Failure::usage)?;
        }
        if let Some(Choice(max_pending)) = self.share_max_pending {
            shares.max_pending = max_pending;
        }
        for (share, weight) in &self.weight {
            shares = shares.weight(share, *weight);
        }
        shares.weights.retain(|(_, weight)| *weight != 1);
        Ok(shares)
    }

    fn rate(&self, starts: (u64, Duration)) -> Result<Rate> {
        let kind = self.kind.unwrap_or(Kind::Window);
        let rate = kind.rate(starts, self.burst);
        rate.map_err(Failure::usage)
    }

    fn removed(&self, session: &Session, removed: bool) -> Result<()> {
        let queue = &self.queue;
        if session.out.is_json() {
            return session
                .out
                .json(&object!({ "queue": queue, "changed": removed }));
        }
        session.out.line(match removed {
            true => format!("{queue} has no limit any more"),
            false => format!("{queue} had no limit"),
        })
    }

    async fn show(&self, session: &Session) -> Result<()> {
        let handle = Queue::new(&session.engine).namespace(session.namespace.clone());
        // Before the limits: a version that is older than they are is refused.
        let version = handle.limits(&self.queue).version().await?;
        let stats = stats(session, vec![self.queue.clone()]).await?;
        let of_queue = stats.first();
        let active = of_queue.map_or(0, |stats| stats.counts.of(JobState::Active));
        let limits = of_queue.and_then(|stats| stats.limits);
        let shares = handle.limits(&self.queue).share_settings().await?;
        if session.out.is_json() {
            let mut line = object!({ "queue": self.queue, "active": active });
            line.0.extend(object_of(&limits.unwrap_or_default()).0);
            let has_shares = shares != ShareSettings::new();
            let shares = object!({ "shares": has_shares.then(|| shares_object(&shares)) });
            line.0.extend(shares.0);
            line.0.push(("version", raw(&version)));
            return session.out.json(&line);
        }
        if limits.is_none() && shares == ShareSettings::new() {
            let queue = &self.queue;
            return session.out.line(format!("{queue} has no limit"));
        }
        let limits = limits.unwrap_or_default();
        let now = session.engine.info().await?.now;
        let mut card = vec![("queue", self.queue.clone())];
        card.push((
            "active",
            match limits.concurrency {
                Some(most) => format!("{active} of {most}"),
                None => active.to_string(),
            },
        ));
        if let Some(rate) = limits.rate {
            card.push(("rate", rate.to_string()));
        }
        if let Some(most) = shares.concurrency {
            card.push(("active of a share", format!("at most {most}")));
        }
        if let Some(rate) = shares.rate {
            card.push(("rate of a share", rate.to_string()));
        }
        if let Some(most) = shares.max_pending {
            card.push(("pending of a share", format!("at most {most}")));
        }
        for (share, weight) in &shares.weights {
            card.push(("weight", format!("{weight} for {share}")));
        }
        card.push((
            "now",
            match (limits.closed, limits.opens_at) {
                (Some(ClosedLimit::Rate), Some(at)) => {
                    format!("closed by its rate; opens {}, at {at}", ago(at, now))
                }
                (Some(closed), _) => format!("closed by its {}", closed.name()),
                (None, _) => "open".into(),
            },
        ));
        if let Some(waits) = limits.waits {
            card.push(("oldest waits", format_span(waits)));
        }
        session.out.card(&card)
    }
}

async fn set(mut limits: QueueLimits, concurrency: Option<u64>, rate: Option<Rate>) -> Result<()> {
    if let Some(concurrency) = concurrency {
        limits = limits.concurrency(concurrency);
    }
    if let Some(rate) = rate {
        limits = limits.rate(rate);
    }
    Ok(limits.set().await?)
}

/// The limits of a queue for scripts.
pub(super) fn object_of(limits: &LimitStats) -> Object {
    object!({
        "concurrency": limits.concurrency,
        "rate": limits.rate.as_ref().map(rate_object),
        "closed": limits.closed.map(ClosedLimit::name),
        "opens_at": limits.opens_at.map(|at| at.to_string()),
        "waits_ms": limits.waits.map(|span| span.as_millis()),
    })
}

fn shares_object(shares: &ShareSettings) -> Object {
    let weights: BTreeMap<_, _> = shares.weights.iter().cloned().collect();
    object!({
        "concurrency": shares.concurrency,
        "rate": shares.rate.as_ref().map(rate_object),
        "max_pending": shares.max_pending,
        "weights": weights,
    })
}

pub(crate) fn rate_object(rate: &Rate) -> Object {
    let (kind, burst) = match rate {
        Rate::Smooth { burst, .. } => ("smooth", Some(*burst)),
        _ => ("window", None),
    };
    object!({
        "kind": kind,
        "starts": rate.starts(),
        "per": exact_span(rate.per()),
        "burst": burst,
    })
}

/// The limits of a queue in a column.
pub(super) fn short(limits: &LimitStats, now: Timestamp) -> String {
    let rate = |rate: Rate| format!("{}/{}", rate.starts(), exact_span(rate.per()));
    let parts = [
        limits.concurrency.map(|most| most.to_string()),
        limits.rate.map(rate),
    ];
    let text = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    match (limits.closed, limits.opens_at) {
        (None, _) => text,
        (Some(_), Some(at)) => format!("{text} (opens {})", ago(at, now)),
        (Some(_), None) => format!("{text} (full)"),
    }
}
