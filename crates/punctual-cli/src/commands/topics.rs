//! `punctual topics`: the receivers of messages, and publishing.

use std::time::Duration;

use clap::Subcommand;
use punctual::queue::{Copy, MatchLine, Topics};
use punctual::time::Timestamp;
use punctual::topic::{Delivery, Filter, Subscription};
use punctual::{JobId, NewJob, Queue};

use super::enqueue::{content_type_of, header_of, not_json, payload};
use crate::args::{Global, Session, id_of, instant_of, span_of};
use crate::connect::Make;
use crate::failure::{Exit, Failure, Result};
use crate::output::{Columns, Object, counted, object, raw};

const FILTERS: &str = "\
Filters, all of which must pass; NAME is a header, @kind or @group:
  NAME in [a,b]   NAME not in [a,b]   NAME = a   NAME != a   NAME starts with a
  NAME exists     NAME absent         NAME >= 1  NAME <= 9   NAME in 1..9
  @due within 1h";

/// Publish one message to several queues, and see who receives it
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the subscriptions
    #[command(after_help = "\
Examples:
  punctual topics list
  punctual topics list -o json")]
    List,
    Subscribe(Subscribe),
    /// Remove a subscription; what lies in its queue stays
    #[command(after_help = "\
Examples:
  punctual topics unsubscribe mailer")]
    Unsubscribe {
        /// The name of the subscription; `topics list` shows it
        #[arg(value_name = "NAME")]
        name: String,
        /// Only if the subscriptions have this version, which `topics list -o json` shows
        #[arg(long, value_name = "VERSION")]
        if_version: Option<u64>,
    },
    Publish(Publish),
    Match(Match),
}

/// Have a copy of each message that matches enqueued into a queue
#[derive(Debug, clap::Args)]
#[command(after_help = format!("\
Examples:
  punctual topics subscribe 'orders.*.paid' mail --name mailer --filter 'country in [de,at]'
  punctual topics subscribe 'orders.>' audit
  punctual topics subscribe 'orders.*.paid' reminders --cancel

A pattern is tokens between dots: * is any one token, > at the end one or more. A subscription of
the same name is replaced. At most 1,000 in a namespace.

{FILTERS}"))]
pub(crate) struct Subscribe {
    /// Subjects whose messages it receives, such as orders.*.paid
    #[arg(value_name = "PATTERN")]
    pattern: String,
    /// The queue that gets a copy of each
    #[arg(value_name = "QUEUE")]
    queue: String,
    /// The name of the subscription [default: QUEUE:PATTERN]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// What a message must pass; may be given more than once
    #[arg(long, value_name = "FILTER", value_parser = filter_of)]
    filter: Vec<Filter>,
    /// Cancel the job of the queue that holds the message's unique key, instead of enqueueing
    #[arg(long)]
    cancel: bool,
    /// Only if the subscriptions have this version, which `topics list -o json` shows; 0: none ever
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u64>,
}

/// A message without its subject and payload.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Message options")]
struct Options {
    /// A header; may be given more than once
    #[arg(long, value_name = "NAME=VALUE", value_parser = header_of)]
    header: Vec<(String, String)>,
    /// The name of the handler [default: the name of each queue]
    #[arg(long, value_name = "NAME")]
    kind: Option<String>,
    /// The message's id, a UUID; the same again stores no second copy [default: a new one]
    #[arg(long, value_name = "UUID", value_parser = id_of)]
    id: Option<JobId>,
    /// At most one unsettled copy of each queue holds this key
    #[arg(long, value_name = "KEY")]
    unique: Option<String>,
    /// Copies of a group run one after the other
    #[arg(long, value_name = "KEY")]
    group: Option<String>,
    /// Run after this span, such as 30m
    #[arg(long, short, value_name = "SPAN", value_parser = span_of, conflicts_with = "at")]
    delay: Option<Duration>,
    /// Run at this instant: 2026-12-01T08:00:00Z, or 2026-12-01 08:00 in local time
    #[arg(long, value_name = "INSTANT", value_parser = instant_of)]
    at: Option<Timestamp>,
}

/// Publish a message under a subject
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual topics publish orders.eu.paid '{\"order\":7}' --header country=de
  punctual topics publish orders.eu.paid '{\"order\":7}' --unique order-7

Each subscription that matches has a copy enqueued, or none has. Exit code 4 if a copy was refused,
as its queue is full. A message that no subscription receives says so.")]
pub(crate) struct Publish {
    /// What it is about, such as orders.eu.paid
    #[arg(value_name = "SUBJECT")]
    subject: String,
    /// The payload: JSON or text, or - for standard input; empty if omitted
    #[arg(value_name = "PAYLOAD", allow_hyphen_values = true)]
    payload: Option<String>,
    #[command(flatten)]
    options: Options,
    /// Send the payload as text, even if it is nearly JSON
    #[arg(long)]
    text: bool,
}

/// Show who would receive a message, and why others would not
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual topics match orders.eu.paid --header country=fr")]
pub(crate) struct Match {
    /// The subject of the message, such as orders.eu.paid
    #[arg(value_name = "SUBJECT")]
    subject: String,
    #[command(flatten)]
    options: Options,
}

fn filter_of(text: &str) -> std::result::Result<Filter, String> {
    text.parse()
        .map_err(|error: punctual::Error| error.message().to_owned())
}

impl Command {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let make = match &self {
            Self::Subscribe(_) | Self::Publish(_) => Make::IfMissing,
            _ => Make::Never,
        };
        let session = &global.session(make).await?;
        match self {
            Self::List => list(session).await,
            Self::Subscribe(args) => args.run(session).await,
            Self::Unsubscribe { name, if_version } => unsubscribe(session, &name, if_version).await,
            Self::Publish(args) => args.run(session).await,
            Self::Match(args) => args.run(session).await,
        }
    }
}

fn queue(session: &Session) -> Queue {
    Queue::new(&session.engine).namespace(session.namespace.clone())
}

/// The subscriptions of the session's namespace.
pub(super) fn topics(session: &Session) -> Topics {
    queue(session).topics()
}

fn at_version(topics: Topics, version: Option<u64>) -> Topics {
    match version {
        Some(version) => topics.if_version(version),
        None => topics,
    }
}

async fn list(session: &Session) -> Result<()> {
    // Before the list: a version that is older than it is refused.
    let version = topics(session).version().await?;
    let found = topics(session).list().await?;
    if session.out.is_json() {
        let all: Vec<Object> = found.iter().map(object_of).collect();
        return session
            .out
            .json(&object!({ "subscriptions": all, "version": version }));
    }
    if found.is_empty() {
        return session.out.line("no subscriptions");
    }
    let row = |one: &Subscription| {
        vec![
            one.name.clone(),
            one.pattern.clone(),
            goes_to(one),
            filters_of(one).join(", "),
        ]
    };
    let columns = Columns {
        names: &["name", "pattern", "to", "filters"],
        ..Columns::default()
    };
    session.out.table(columns, found.iter().map(row).collect())
}

fn goes_to(one: &Subscription) -> String {
    match one.delivery {
        Delivery::Cancel => format!("cancels in {}", one.queue),
        _ => one.queue.clone(),
    }
}

fn filters_of(one: &Subscription) -> Vec<String> {
    one.filters.iter().map(ToString::to_string).collect()
}

fn object_of(one: &Subscription) -> Object {
    let delivery = match one.delivery {
        Delivery::Cancel => "cancel",
        _ => "enqueue",
    };
    object!({
        "name": one.name, "pattern": one.pattern, "queue": one.queue, "delivery": delivery,
        "filters": filters_of(one),
    })
}

impl Subscribe {
    async fn run(self, session: &Session) -> Result<()> {
        let mut subscription = match self.cancel {
            true => Subscription::cancels(self.queue),
            false => Subscription::to(self.queue),
        };
        if let Some(name) = self.name {
            subscription = subscription.name(name);
        }
        for filter in self.filter {
            subscription = subscription.filter(filter);
        }
        let subscription = subscription.matching(self.pattern);
        let pattern = subscription.pattern.clone();
        let topics = at_version(topics(session), self.if_version);
        let changed = topics.subscribe(pattern, subscription.clone()).await?;
        if session.out.is_json() {
            let mut written = object_of(&subscription);
            written.0.push(("changed", raw(&changed)));
            return session.out.json(&written);
        }
        let text = match changed {
            true => "is subscribed",
            false => "is subscribed already",
        };
        session.out.line(format!("{} {text}", subscription.name))?;
        session.announce_durability(session.durability().await?);
        Ok(())
    }
}

async fn unsubscribe(session: &Session, name: &str, if_version: Option<u64>) -> Result<()> {
    let topics = at_version(topics(session), if_version);
    if !topics.unsubscribe(name).await? {
        let message = format!("no subscription {name}");
        return Err(Failure::new(Exit::NotFound, "not_found", message)
            .hint("`punctual topics list` shows the subscriptions"));
    }
    if session.out.is_json() {
        return session.out.json(&object!({"name": name, "removed": true}));
    }
    session.out.line(format!("{name} is removed"))
}

impl Options {
    /// The job of a message; its queue is that of each subscription.
    fn job(self) -> NewJob {
        let mut job = NewJob::new("topics", "").headers(self.header);
        if let Some(kind) = self.kind {
            job = job.kind(kind);
        }
        if let Some(id) = self.id {
            job = job.id(id);
        }
        if let Some(key) = self.unique {
            job = job.unique(key);
        }
        if let Some(key) = self.group {
            job = job.group(key);
        }
        if let Some(span) = self.delay {
            job = job.delay(span);
        }
        match self.at {
            Some(at) => job.at(at),
            None => job,
        }
    }
}

impl Publish {
    async fn run(self, session: &Session) -> Result<()> {
        let mut job = self.options.job();
        job.payload = payload(self.payload)?;
        let found = content_type_of(&job.payload, self.text);
        job.content_type = found.map_err(not_json)?.into();
        let published = queue(session).publish_job(self.subject, job).await?;
        let refused = published.copies.iter().filter(|copy| is_refused(copy));
        let refused = refused.count();
        if session.out.is_json() {
            let copies: Vec<Object> = published.copies.iter().map(copy_of).collect();
            session.out.json(&object!({
                "id": published.id.to_string(), "matched": published.matched, "copies": copies,
            }))?;
        } else {
            let matched = counted(published.matched as u64, "subscription");
            session.out.line(match published.matched {
                0 => format!("{}: no subscription receives it", published.id),
                _ => format!("{}: {matched} matched", published.id),
            })?;
            let row = |copy: &Copy| {
                let id = copy.id.map(|id| id.to_string());
                vec![
                    copy.subscription.clone(),
                    copy.queue.clone(),
                    verdict_of(copy).into(),
                    id.unwrap_or_default(),
                ]
            };
            let columns = Columns {
                names: &["subscription", "queue", "verdict", "job"],
                ..Columns::default()
            };
            if published.matched > 0 {
                let rows = published.copies.iter().map(row).collect();
                session.out.table(columns, rows)?;
                session.announce_durability(session.durability().await?);
            }
        }
        match refused {
            0 => Ok(()),
            _ => Err(Failure::reported(Exit::Refused)),
        }
    }
}

fn is_refused(copy: &Copy) -> bool {
    copy.verdict.is_some_and(|verdict| !verdict.is_accepted())
}

fn verdict_of(copy: &Copy) -> &'static str {
    match (copy.id, copy.verdict) {
        (None, _) => "cancels",
        (_, Some(verdict)) => verdict.name(),
        (_, None) => "on its way",
    }
}

fn copy_of(copy: &Copy) -> Object {
    let mut one = object!({"subscription": copy.subscription, "queue": copy.queue});
    if let Some(id) = copy.id {
        one.0.push(("id", raw(&id.to_string())));
    }
    if let Some(verdict) = copy.verdict {
        one.0.push(("verdict", raw(&verdict.name())));
    }
    one
}

impl Match {
    async fn run(self, session: &Session) -> Result<()> {
        let job = self.options.job();
        let lines = topics(session).explain(self.subject, job).await?;
        let matched = lines.iter().filter(|line| line.why_not.is_none()).count();
        if session.out.is_json() {
            let line = |line: &MatchLine| {
                let mut one = object_of(&line.subscription);
                one.0.push(("matches", raw(&line.why_not.is_none())));
                if let Some(why_not) = &line.why_not {
                    one.0.push(("why_not", raw(why_not)));
                }
                one
            };
            let all: Vec<Object> = lines.iter().map(line).collect();
            return session
                .out
                .json(&object!({"matched": matched, "subscriptions": all}));
        }
        if lines.is_empty() {
            return session.out.line("there are no subscriptions");
        }
        if matched == 0 {
            session.out.line("no subscription receives it")?;
        }
        let row = |line: &MatchLine| {
            let one = &line.subscription;
            let why_not = line.why_not.as_ref();
            vec![
                one.name.clone(),
                goes_to(one),
                why_not.map_or("yes", |_| "no").into(),
                why_not.cloned().unwrap_or_default(),
            ]
        };
        let columns = Columns {
            names: &["subscription", "to", "receives it", "why not"],
            ..Columns::default()
        };
        session.out.table(columns, lines.iter().map(row).collect())
    }
}
