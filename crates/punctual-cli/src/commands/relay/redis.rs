//! `punctual relay redis-list`, `redis-zset`, `redis-stream`, `redis-redisson`, `redis-expiry` and
//! `redis-pubsub`.

use std::time::Duration;

use clap::ValueEnum;
use punctual::time::seconds;
use punctual_relay::redis::{
    End, ExpirySource, ListSource, Place, PubSubSource, RedissonSource, StreamSource, Unit,
    ZsetSource,
};

use super::{Common, Prepared, Reach};
use crate::args::{Global, span_of};
use crate::failure::{Failure, Result};
use crate::output::{object, raw};

/// Where the messages are, and the queue of their jobs.
#[derive(Debug, clap::Args)]
struct From {
    /// The server: HOST:PORT, or with a scheme, a user, a password and a database
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "PUNCTUAL_REDIS",
        hide_env_values = true
    )]
    redis: String,

    /// The key
    #[arg(long, value_name = "KEY")]
    key: String,

    /// The queue of the jobs
    #[arg(long, value_name = "QUEUE")]
    into: String,
}

impl From {
    fn place(&self) -> Result<Place> {
        let address = match self.redis.contains(':') {
            true => self.redis.clone(),
            false => format!("{}:6379", self.redis),
        };
        Ok(Place::new(&address, self.key.clone())?)
    }

    fn reaches(&self) -> Vec<Reach> {
        let scheme = match self.redis.contains("://") {
            true => "",
            false => "redis://",
        };
        let address = format!("{scheme}{}", self.redis);
        vec![Reach::Address(address), Reach::Topic(self.key.clone())]
    }

    /// With all keys that begin so.
    fn reaches_beginning(&self, begin: &str) -> Vec<Reach> {
        let mut reaches = self.reaches();
        reaches.pop();
        reaches.push(Reach::Topics(begin.to_owned()));
        reaches
    }
}

/// What a key, a channel, or a pattern of them with `*` reaches.
fn topic_or_topics(key: &str) -> Reach {
    match key.contains('*') {
        // What is in front of the first sign of a pattern is the same in all that match.
        true => {
            let signs = ['*', '?', '[', '\\'];
            let begin = key.split(signs).next().unwrap_or_default();
            Reach::Topics(begin.to_owned())
        }
        false => Reach::Topic(key.to_owned()),
    }
}

/// Take a list in the place of its BRPOP or BLPOP consumers
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "punctual relay redis-list [OPTIONS] --redis <ADDRESS> --key <KEY>
         --into <QUEUE>",
    after_help = "\
Stop the old consumers first: they and the relay share the list. Each item is parked beside the
list until its job is stored, in {KEY}:punctual:parked and {KEY}:punctual:bodies.

--processing takes what stopped consumers of a reliable list (BLMOVE, RPOPLPUSH) have left in their
processing lists: --processing 'mail:processing:*'. Those of a consumer that runs would run twice."
)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    from: From,

    /// The end that consumers take from: right for LPUSH producers, left for RPUSH
    #[arg(long, value_enum, default_value = "right")]
    end: ListEnd,

    /// A processing list of consumers that are stopped, or a pattern with *; several times
    #[arg(long, value_name = "KEY")]
    processing: Vec<String>,

    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ListEnd {
    Right,
    Left,
}

impl ListArgs {
    pub(super) fn prepare(self) -> Result<Prepared> {
        let end = match self.end {
            ListEnd::Right => End::Right,
            ListEnd::Left => End::Left,
        };
        let source = ListSource::new(self.from.place()?, &self.from.into).end(end);
        let mut reaches = self.from.reaches();
        for key in &self.processing {
            reaches.push(topic_or_topics(key));
        }
        Ok(Prepared {
            source: Some(Box::new(source.processing(self.processing)?)),
            reaches,
            ..self.common.prepare("redis-list", &self.from.into)
        })
    }
}

/// Take a sorted set whose scores say when its members are due
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "punctual relay redis-zset [OPTIONS] --redis <ADDRESS> --key <KEY>
         --into <QUEUE>",
    after_help = "\
The relay takes all members at once, also those due in months: the engine waits, not the set. So
stop the old poller first, and cancel by job from then on. The unit of the scores is guessed by
their size and shown; --dry-run shows it and takes nothing. A score that is no instant of the years
2001 to 5138, such as 3, becomes a dead job; if all are so, the relay does not start."
)]
pub(crate) struct ZsetArgs {
    #[command(flatten)]
    from: From,

    /// The unit of the scores [default: guessed]
    #[arg(long, value_enum)]
    unit: Option<ScoreUnit>,

    /// Show the unit and the first instants, and take nothing
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ScoreUnit {
    S,
    Ms,
    Us,
}

impl ZsetArgs {
    fn source(&self) -> Result<ZsetSource> {
        let mut source = ZsetSource::new(self.from.place()?, &self.from.into);
        if let Some(unit) = self.unit {
            source = source.unit(match unit {
                ScoreUnit::S => Unit::Seconds,
                ScoreUnit::Ms => Unit::Millis,
                ScoreUnit::Us => Unit::Micros,
            });
        }
        Ok(source)
    }

    /// Shows the unit of the scores; whether that was all that was asked for.
    pub(super) async fn show(&self, global: &Global) -> Result<bool> {
        let prepared = self.common.prepare("redis-zset", &self.from.into);
        prepared.check()?;
        let guess = self.source()?.guess().await?;
        let unit = guess.unit.map_or("unknown, the set is empty", Unit::name);
        let out = global.output();
        if self.dry_run && out.is_json() {
            let due: Vec<String> = guess
                .samples
                .iter()
                .map(|(_, due)| due.to_string())
                .collect();
            let unit = guess.unit.map(Unit::name);
            let (examined, refused) = (guess.examined, guess.refused);
            out.json(&object!({
                "unit": unit, "due": raw(&due), "examined": examined, "refused": refused,
            }))?;
            return Ok(true);
        }
        out.note(format!("unit of the scores: {unit}"));
        for (score, due) in &guess.samples {
            out.note(format!("  score {score} is due {due}"));
        }
        if guess.refused > 0 {
            out.note(format!(
                "  {} of {} scores are no instants: they become dead jobs",
                guess.refused, guess.examined
            ));
        }
        Ok(self.dry_run)
    }

    pub(super) fn prepare(self) -> Result<Prepared> {
        if self.dry_run {
            return Err(Failure::usage("a relay of a file takes: leave dry_run out"));
        }
        Ok(Prepared {
            source: Some(Box::new(self.source()?)),
            reaches: self.from.reaches(),
            ..self.common.prepare("redis-zset", &self.from.into)
        })
    }
}

/// Take a delayed queue of Redisson (RDelayedQueue)
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "punctual relay redis-redisson [OPTIONS] --redis <ADDRESS> --key <KEY>
         --into <QUEUE>",
    after_help = "\
The key is the name of the destination queue. The relay takes all delayed items at once, with their
instants, and what Redisson has moved to the destination. Producers go on; stop the consumers of the
destination first. A payload is what the application's codec wrote: JSON and text are readable."
)]
pub(crate) struct RedissonArgs {
    #[command(flatten)]
    from: From,

    #[command(flatten)]
    common: Common,
}

impl RedissonArgs {
    pub(super) fn prepare(self) -> Result<Prepared> {
        let source = RedissonSource::new(self.from.place()?, &self.from.into);
        Ok(Prepared {
            source: Some(Box::new(source)),
            reaches: self.from.reaches(),
            ..self.common.prepare("redis-redisson", &self.from.into)
        })
    }
}

/// Read a stream by a consumer group
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "punctual relay redis-stream [OPTIONS] --redis <ADDRESS> --key <KEY>
         --into <QUEUE>",
    after_help = "\
The payload of a job is a JSON object of the entry's fields, or one field by --field. The group is
made from the first entry on if it is missing. Entries are acknowledged once stored, and deleted
with --delete."
)]
pub(crate) struct StreamArgs {
    #[command(flatten)]
    from: From,

    /// The consumer group
    #[arg(long, value_name = "NAME", default_value = "punctual")]
    group: String,

    /// The field that is the payload
    #[arg(long, value_name = "FIELD")]
    field: Option<String>,

    /// Delete entries once they are stored
    #[arg(long)]
    delete: bool,

    #[command(flatten)]
    common: Common,
}

impl StreamArgs {
    pub(super) fn prepare(self) -> Result<Prepared> {
        let mut source = StreamSource::new(self.from.place()?, &self.from.into).group(self.group);
        if let Some(field) = self.field {
            source = source.field(field);
        }
        if self.delete {
            source = source.delete();
        }
        Ok(Prepared {
            source: Some(Box::new(source)),
            reaches: self.from.reaches(),
            ..self.common.prepare("redis-stream", &self.from.into)
        })
    }
}

/// Make a job of each key's expiry, on time
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "punctual relay redis-expiry [OPTIONS] --redis <ADDRESS> --prefix <PREFIX>
         --into <QUEUE>",
    after_help = "\
The relay reads when each key with the prefix expires (PEXPIRETIME, Redis 7) and makes a job at that
instant. It does not wait for Redis to say so: Redis is seconds late, and says it once. It sweeps
over all keys of the database. Where notify-keyspace-events has E and g, it also reads keys as their
expiry is set. A key that is set and gone between two sweeps is missed without them. A new expiry of
a key replaces its job until its instant. DEL and PERSIST do not cancel it: the handler checks what
it means."
)]
pub(crate) struct ExpiryArgs {
    /// The server: HOST:PORT, or with a scheme, a user, a password and a database
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "PUNCTUAL_REDIS",
        hide_env_values = true
    )]
    redis: String,

    /// The beginning of the keys
    #[arg(long, value_name = "PREFIX")]
    prefix: String,

    /// The queue of the jobs
    #[arg(long, value_name = "QUEUE")]
    into: String,

    /// The pause between two sweeps
    #[arg(long, value_name = "SPAN", value_parser = span_of, default_value = "30s")]
    sweep: Duration,

    #[command(flatten)]
    common: Common,
}

impl ExpiryArgs {
    pub(super) fn prepare(self) -> Result<Prepared> {
        let from = From {
            redis: self.redis,
            key: self.prefix,
            into: self.into,
        };
        let source = ExpirySource::new(from.place()?, &from.into);
        Ok(Prepared {
            source: Some(Box::new(source.sweep_every(self.sweep.max(seconds(1))))),
            reaches: from.reaches_beginning(&from.key),
            ..self.common.prepare("redis-expiry", &from.into)
        })
    }
}

/// Make jobs of what is published to a channel; Redis keeps none of it
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "punctual relay redis-pubsub [OPTIONS] --redis <ADDRESS>
         --channel <CHANNEL> --into <QUEUE>",
    after_help = "\
PUBLISH keeps nothing. What is published while no relay listens is lost, and so is what a relay has
not stored when it is killed; two relays of one channel store each message twice. If you may change
the producers, let them XADD to a stream instead, and use redis-stream: it loses nothing."
)]
pub(crate) struct PubsubArgs {
    /// The server: HOST:PORT, or with a scheme, a user, a password and a database
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "PUNCTUAL_REDIS",
        hide_env_values = true
    )]
    redis: String,

    /// The channel, or a pattern with *
    #[arg(long, value_name = "CHANNEL")]
    channel: String,

    /// The queue of the jobs
    #[arg(long, value_name = "QUEUE")]
    into: String,

    #[command(flatten)]
    common: Common,
}

impl PubsubArgs {
    pub(super) fn prepare(self) -> Result<Prepared> {
        let from = From {
            redis: self.redis,
            key: self.channel,
            into: self.into,
        };
        let mut reaches = from.reaches();
        reaches.pop();
        reaches.push(topic_or_topics(&from.key));
        Ok(Prepared {
            source: Some(Box::new(PubSubSource::new(from.place()?, &from.into))),
            reaches,
            ..self.common.prepare("redis-pubsub", &from.into)
        })
    }
}
