//! Starts a new append-only file on a server whose file may end in a truncated transaction.

use punctual::{Error, ErrorKind, Result};
use redis::{FromRedisValue, Value, cmd};

use crate::policy::server_info::ASK_TIMEOUT;
use crate::transport::link::{Deadline, Live};
use crate::transport::node::Node;

/// Has a server go on in a new append-only file if since its start it has not: what it may have
/// started behind, a transaction that a power cut has torn, is not in that. Answers whether it
/// does.
///
/// Redis up to 7.0.15 at least starts with such an end by default (`aof-load-truncated yes`),
/// writes on behind it without having ended the transaction, and at its next start drops or half
/// runs all that it acknowledged since.
pub(crate) async fn rewrite_once(node: &Node, live: &Live) -> Result<bool> {
    let deadline = Deadline::within(ASK_TIMEOUT);
    let mut command = cmd("INFO");
    command.arg("persistence");
    let answer = node.ask(live, &command, deadline).await?;
    let answer = String::from_redis_value(answer).unwrap_or_default();
    let appends_to_an_old_file = [
        "aof_enabled:1",
        "aof_rewrites:0",
        "aof_rewrite_in_progress:0",
    ]
    .iter()
    .all(|sign| answer.lines().any(|line| line == *sign));
    if !appends_to_an_old_file || !loads_truncated_files(node, live, deadline).await {
        return Ok(true);
    }
    match node.ask(live, &cmd("BGREWRITEAOF"), deadline).await {
        Err(error) if error.is_retryable() => Err(error),
        // Rights that are missing, a command that is taken away, a process that cannot be forked.
        Err(error) => Ok(error.message().contains("already in progress")),
        Ok(_) => Ok(true),
    }
}

async fn loads_truncated_files(node: &Node, live: &Live, deadline: Deadline) -> bool {
    let mut setting = cmd("CONFIG");
    setting.arg("GET").arg("aof-load-truncated");
    let answer = node.ask(live, &setting, deadline).await;
    let answer = answer.ok().map(Vec::<Value>::from_redis_value);
    let answer = answer.and_then(std::result::Result::ok).unwrap_or_default();
    !matches!(answer.as_slice(), [_, Value::BulkString(no)] if no == b"no")
}

/// A server that does not cannot keep `fsync`.
pub(crate) fn refused(node: &Node) -> Error {
    Error::new(ErrorKind::DurabilityUnavailable, message(node)).operation("connect")
}

/// The same in words, with the remedy.
pub(crate) fn message(node: &Node) -> String {
    format!(
        "redis at {} cannot keep durability=fsync; after a power cut it may append behind a truncated transaction in \
         its append-only file, and it starts no new file: allow the user +bgrewriteaof and read its log, or set aof-load-truncated no",
        node.host()
    )
}
