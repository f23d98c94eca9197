//! The functions that the engine loads into the servers.

use std::collections::HashMap;
use std::sync::LazyLock;

use punctual::time::within;
use punctual::{Error, ErrorKind, Result};
use redis::{Cmd, FromRedisValue, RedisError, Value, cmd};

use crate::transport::address::Host;
use crate::transport::error_mapping::{Recovery, recovery, temporary};
use crate::transport::link::Live;
use crate::wire::numbers::{BUNDLE_MIN, PART_OF_ID};

/// The files of the library, in the order of `functions/ORDER`.
const FILES: &[&str] = &[
    include_str!("../functions/core.lua"),
    include_str!("../functions/shard.lua"),
    include_str!("../functions/idle.lua"),
    include_str!("../functions/check.lua"),
    include_str!("../functions/records.lua"),
    include_str!("../functions/record.lua"),
    include_str!("../functions/bundle.lua"),
    include_str!("../functions/due.lua"),
    include_str!("../functions/line.lua"),
    include_str!("../functions/gate.lua"),
    include_str!("../functions/group.lua"),
    include_str!("../functions/group_alone.lua"),
    include_str!("../functions/share_row.lua"),
    include_str!("../functions/share_alone.lua"),
    include_str!("../functions/share_line.lua"),
    include_str!("../functions/share.lua"),
    include_str!("../functions/share_bound.lua"),
    include_str!("../functions/named_row.lua"),
    include_str!("../functions/named.lua"),
    include_str!("../functions/unique.lua"),
    include_str!("../functions/place.lua"),
    include_str!("../functions/lease.lua"),
    include_str!("../functions/lease_keyed.lua"),
    include_str!("../functions/extend.lua"),
    include_str!("../functions/ends.lua"),
    include_str!("../functions/workers.lua"),
    include_str!("../functions/settled.lua"),
    include_str!("../functions/kept.lua"),
    include_str!("../functions/settle_many.lua"),
    include_str!("../functions/heal.lua"),
    include_str!("../functions/sweep.lua"),
    include_str!("../functions/retry.lua"),
    include_str!("../functions/enqueue.lua"),
    include_str!("../functions/store.lua"),
    include_str!("../functions/batch_same.lua"),
    include_str!("../functions/batch.lua"),
    include_str!("../functions/wakeup_leader.lua"),
    include_str!("../functions/claim_take.lua"),
    include_str!("../functions/share_claim.lua"),
    include_str!("../functions/claim.lua"),
    include_str!("../functions/claim_call.lua"),
    include_str!("../functions/hold.lua"),
    include_str!("../functions/early.lua"),
    include_str!("../functions/clear.lua"),
    include_str!("../functions/guard.lua"),
    include_str!("../functions/complete.lua"),
    include_str!("../functions/settle.lua"),
    include_str!("../functions/outbox.lua"),
    include_str!("../functions/calls.lua"),
    include_str!("../functions/lone.lua"),
    include_str!("../functions/share_read.lua"),
    include_str!("../functions/share_list.lua"),
    include_str!("../functions/named_read.lua"),
    include_str!("../functions/explain.lua"),
    include_str!("../functions/inspect.lua"),
    include_str!("../functions/edit.lua"),
    include_str!("../functions/purge.lua"),
    include_str!("../functions/stats.lua"),
    include_str!("../functions/schedule_row.lua"),
    include_str!("../functions/schedule.lua"),
    include_str!("../functions/schedule_list.lua"),
    include_str!("../functions/schedule_many.lua"),
    include_str!("../functions/schedule_success.lua"),
    include_str!("../functions/schedule_run.lua"),
    include_str!("../functions/flow_row.lua"),
    include_str!("../functions/flow.lua"),
    include_str!("../functions/flow_again.lua"),
    include_str!("../functions/flow_work.lua"),
    include_str!("../functions/flow_acts.lua"),
    include_str!("../functions/control.lua"),
    include_str!("../functions/wait.lua"),
    include_str!("../functions/text.lua"),
    include_str!("../functions/text_json.lua"),
    include_str!("../functions/text_push.lua"),
    include_str!("../functions/text_lease.lua"),
    include_str!("../functions/text_reads.lua"),
    include_str!("../functions/text_help.lua"),
    include_str!("../functions/register.lua"),
];

/// Names of numbers in these files, each with its value: `NAME = VALUE -- what it is`.
const CONSTANTS: &str = include_str!("../functions/CONSTANTS");

/// The files as one text, with the values of all constants in place of their names; put together
/// once a process.
fn assembled() -> String {
    static ASSEMBLED: LazyLock<String> = LazyLock::new(|| with_values(&FILES.concat()));
    ASSEMBLED.clone()
}

/// The text with the value in place of each `%NAME%`, and the test of a bit in place of each
/// `%FLAGS has NAME%`. It goes through the text once: every process that uses Redis waits for it.
fn with_values(text: &str) -> String {
    let constants = CONSTANTS.lines().filter_map(|line| line.split_once(" = "));
    let values: HashMap<&str, &str> = constants
        .map(|(name, rest)| {
            (
                name,
                rest.split_once(" -- ").map_or(rest, |(value, _)| value),
            )
        })
        .collect();
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        out += before;
        let named = after.split_once('%');
        rest = match named.and_then(|(name, next)| Some((value_of(name, &values)?, next))) {
            Some((value, next)) => {
                out += &value;
                next
            }
            None => {
                out.push('%');
                after
            }
        };
    }
    out + rest
}

/// The value of a name, or the test of its bit in `FLAGS has NAME`; none of any other text.
fn value_of(name: &str, values: &HashMap<&str, &str>) -> Option<String> {
    match name.rsplit_once(" has ") {
        None => values.get(name).map(|value| (*value).to_owned()),
        Some((flags, name)) => Some(match *values.get(name)? {
            "1" => format!("{flags} % 2 == 1"),
            bit => format!("floor({flags} / {bit}) % 2 == 1"),
        }),
    }
}

/// The functions of the servers, under a name that no other version of the protocol has.
#[derive(Debug, Clone)]
pub(crate) struct Library {
    name: &'static str,
    text: String,
    version: i64,
    /// As many jobs of a call as this are stored as a bundle.
    bundle_min: usize,
    /// The byte of an id that decides in which hash its record is.
    part_of_id: u8,
}

impl Library {
    /// The library that serves.
    pub(crate) fn production() -> Self {
        let functions = assembled();
        #[cfg(feature = "testing")]
        let functions = crate::testing::inject(functions);
        Self::named("punctual_1", functions, BUNDLE_MIN)
    }

    /// The same with a clock that tests move, under another name: what only that has stands in
    /// comments that begin with `--TEST`. Put together once: a law may open many engines.
    #[cfg(feature = "testing")]
    pub(crate) fn with_test_clock() -> Self {
        static LIBRARY: LazyLock<Library> = LazyLock::new(|| {
            let functions = crate::testing::inject(assembled()).replace("--TEST ", "");
            Library::named("punctual_test", functions, BUNDLE_MIN)
        });
        LIBRARY.clone()
    }

    /// The same where a few jobs are as good as many: for that, comments begin with `--SMALL`.
    #[cfg(feature = "testing")]
    pub(crate) fn with_small_bundles() -> Self {
        static LIBRARY: LazyLock<Library> = LazyLock::new(|| {
            let functions = crate::testing::inject(assembled()).replace("--TEST ", "");
            Library::named("punctual_test", functions.replace("--SMALL ", ""), 3)
        });
        LIBRARY.clone()
    }

    /// The same with a bug.
    #[cfg(feature = "testing")]
    pub(crate) fn with_injected(bug: &str) -> Self {
        let functions = assembled().replace("--TEST ", "");
        let functions = crate::testing::injected(functions.replace("--SMALL ", ""), bug);
        Self::named("punctual_test", functions, 3)
    }

    fn named(name: &'static str, functions: String, bundle_min: usize) -> Self {
        let text = format!("#!lua name={name}\nlocal PREFIX = '{name}_'\n{functions}");
        let version = text
            .lines()
            .find_map(|line| line.strip_prefix("local VERSION = "));
        let version = version.and_then(|number| number.trim().parse().ok());
        Self {
            name,
            version: version.unwrap_or(0),
            text,
            bundle_min,
            part_of_id: match name {
                "punctual_1" => PART_OF_ID,
                _ => 16, // as `records.lua` has it for tests
            },
        }
    }

    /// The library under another version number: another release to a server.
    #[cfg(feature = "testing")]
    pub(crate) fn numbered(version: i64) -> Self {
        let library = Self::production();
        let line = |version: i64| format!("local VERSION = {version}\n");
        let text = library.text.replace(&line(library.version), &line(version));
        Self {
            text,
            version,
            ..library
        }
    }

    /// The version of the functions that this crate brings.
    pub(crate) fn version(&self) -> i64 {
        self.version
    }

    /// As many jobs of a call as this are stored as a bundle; fewer would only cost more.
    pub(crate) fn bundle_min(&self) -> usize {
        self.bundle_min
    }

    /// The byte of an id, from 1, that decides in which hash its record is.
    pub(crate) fn part_of_id(&self) -> u8 {
        self.part_of_id
    }

    #[cfg(test)]
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// A call of a function with the keys of a shard.
    pub(crate) fn call<'a>(
        &self,
        reads: bool,
        name: &str,
        base: &str,
        arguments: impl Iterator<Item = &'a [u8]>,
    ) -> Cmd {
        let mut call = cmd(if reads { "FCALL_RO" } else { "FCALL" });
        call.arg([self.name, "_", name].concat()).arg(1).arg(base);
        for argument in arguments {
            call.arg(argument);
        }
        call
    }

    /// The version of the functions in a server, if it has them.
    pub(crate) async fn version_at(&self, live: &Live, host: &Host) -> Result<Option<i64>> {
        let mut ask = cmd("FCALL_RO");
        ask.arg([self.name, "_version"].concat()).arg(0);
        match send(live, &ask, host).await? {
            Ok(version) => Ok(i64::from_redis_value(version).ok()),
            Err(error) => match recovery(&error, host) {
                Recovery::Load => Ok(None),
                _ => Err(refused(&error, host)),
            },
        }
    }

    /// Loads the functions into a server that has none or older ones; newer ones are respected.
    pub(crate) async fn ensure(&self, live: &Live, host: &Host) -> Result<()> {
        let there = self.version_at(live, host).await?;
        if there.is_some_and(|version| version >= self.version) {
            return Ok(());
        }
        let mut load = cmd("FUNCTION");
        load.arg("LOAD").arg("REPLACE").arg(&self.text);
        match send(live, &load, host).await? {
            Ok(_) => Ok(()),
            Err(error) => Err(refused(&error, host)),
        }
    }
}

/// How long a server may take to load its functions.
const LOADING: std::time::Duration = punctual::time::seconds(2);

async fn send(
    live: &Live,
    command: &Cmd,
    host: &Host,
) -> Result<std::result::Result<Value, RedisError>> {
    let mut connection = live.connection.clone();
    let sent = within(LOADING, command.query_async(&mut connection)).await;
    sent.ok_or_else(|| {
        let message = format!("redis at {host} gave no answer in time");
        Error::new(ErrorKind::EngineUnavailable, message)
    })
}

fn refused(error: &RedisError, host: &Host) -> Error {
    let said = error.detail().unwrap_or("");
    if error.code() == Some("ERR") && said.contains("unknown command") {
        let message = format!(
            "redis at {host} has no functions; use Redis 7.0 or later, or Valkey, without renamed \
             commands"
        );
        return Error::new(ErrorKind::Unsupported, message);
    }
    match recovery(error, host) {
        Recovery::Final(refused) => refused,
        Recovery::Later => temporary(error, host),
        _ => {
            let message = format!("redis at {host} cannot load the functions: {error}");
            Error::new(ErrorKind::EngineUnavailable, message)
        }
    }
}

#[cfg(test)]
mod tests;
