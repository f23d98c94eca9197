//! `punctual repair --clock`: sets engine time on Redis back.

use punctual::time::format_span;
use punctual::{Error, ErrorKind};
use punctual_redis::{RedisEngine, ShardClock};

use crate::args::Global;
use crate::connect::Address;
use crate::failure::{Failure, Result};
use crate::output::{Output, counted, object};

/// Engine time that is less ahead catches up by itself.
const AHEAD_MIN: std::time::Duration = punctual::time::seconds(1);

pub(super) async fn run(global: &Global, yes: bool, force: bool) -> Result<()> {
    let Address::Redis(address) = global.address()? else {
        let message = "--clock is for Redis; on other engines a restart reads the clock anew";
        return Err(Error::new(ErrorKind::InvalidInput, message).into());
    };
    let namespace = global.namespace()?;
    let engine = RedisEngine::connect(address.options()?).await?;
    let clocks = match yes {
        true => engine.set_clock_back(&namespace, force).await?,
        false => engine.clocks(&namespace).await?,
    };
    announce(global.output(), &clocks)?;
    let is_left = |clock: &&ShardClock| clock.ahead >= AHEAD_MIN && !clock.is_set_back;
    match clocks.iter().find(is_left) {
        None => Ok(()),
        Some(clock) => Err(refused(clock, yes)),
    }
}

fn refused(clock: &ShardClock, yes: bool) -> Failure {
    let workers = counted(clock.workers as u64, "worker");
    let (message, hint) = match yes {
        false => (
            "engine time is ahead; nothing was changed".to_owned(),
            "stop all workers, then run it with --yes",
        ),
        true => (
            format!(
                "shard {} has {workers} seen before engine time stood still{}; nothing was changed there",
                clock.shard,
                if clock.has_leases {
                    ", and open leases"
                } else {
                    ""
                },
            ),
            "stop all workers; if they are stopped, add --force: open leases end then, and their jobs run again",
        ),
    };
    Failure::from(Error::new(ErrorKind::Conflict, message)).hint(hint)
}

fn announce(out: Output, clocks: &[ShardClock]) -> Result<()> {
    for clock in clocks {
        let ahead = format_span(clock.ahead);
        if out.is_json() {
            out.json(&object!({
                "shard": clock.shard,
                "ahead_ms": clock.ahead.as_millis() as u64,
                "workers": clock.workers,
                "has_leases": clock.has_leases,
                "set_back": clock.is_set_back,
            }))?;
        } else if clock.is_set_back {
            out.line(format!(
                "shard {}: engine time was {ahead} ahead and is set back",
                clock.shard
            ))?;
        } else if clock.ahead < AHEAD_MIN {
            out.line(format!("shard {}: engine time is not ahead", clock.shard))?;
        } else {
            out.line(format!(
                "shard {}: engine time is {ahead} ahead",
                clock.shard
            ))?;
        }
    }
    Ok(())
}
