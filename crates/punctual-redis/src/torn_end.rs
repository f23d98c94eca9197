use punctual::time::seconds;
use punctual::{Error, ErrorKind, Result};
use redis::{FromRedisValue, Value, cmd};

use crate::link::{Deadline, Live};
use crate::servers::Node;

/// Has a server go on in a new append-only file if since its start it has not: what it may have
/// started behind, a transaction that a power cut has torn, is not in that. Answers whether it may
/// be asked to.
///
/// Redis up to 7.0.15 at least starts with such an end by default (`aof-load-truncated yes`), writes on
/// behind it without having ended the transaction, and at its next start drops or half runs all that it
/// acknowledged since.
pub(crate) async fn leave_behind(node: &Node, live: &Live) -> Result<bool> {
    let deadline = Deadline::within(PATIENCE);
    let mut command = cmd("INFO");
    command.arg("persistence");
    let told = node.ask(live, &command, deadline).await?;
    let told = String::from_redis_value(told).unwrap_or_default();
    let goes_on_in_an_old_file = [
        "aof_enabled:1",
        "aof_rewrites:0",
        "aof_rewrite_in_progress:0",
    ]
    .iter()
    .all(|sign| told.lines().any(|line| line == *sign));
    if !goes_on_in_an_old_file || !starts_with_a_torn_end(node, live, deadline).await {
        return Ok(true);
    }
    match node.ask(live, &cmd("BGREWRITEAOF"), deadline).await {
        Err(error) if error.is_retryable() => Err(error),
        Err(error) if is_forbidden(&error) => Ok(false),
        // Done, or another client was quicker.
        _ => Ok(true),
    }
}

/// How long a server may take to say how it stands.
const PATIENCE: std::time::Duration = seconds(2);

/// Rights that are missing, or a server whose owner has taken the command away.
fn is_forbidden(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::InvalidInput | ErrorKind::Unsupported
    )
}

async fn starts_with_a_torn_end(node: &Node, live: &Live, deadline: Deadline) -> bool {
    let mut setting = cmd("CONFIG");
    setting.arg("GET").arg("aof-load-truncated");
    let told = node.ask(live, &setting, deadline).await;
    let told = told.ok().map(Vec::<Value>::from_redis_value);
    let told = told.and_then(std::result::Result::ok).unwrap_or_default();
    !matches!(told.as_slice(), [_, Value::BulkString(no)] if no == b"no")
}

/// A server whose user may not ask it for that cannot keep `fsync`.
pub(crate) fn refused(node: &Node) -> Error {
    let message = format!(
        "redis at {} cannot keep durability=fsync; after a power cut it may write on behind a torn end of \
         its append-only file: allow the user +bgrewriteaof, or set aof-load-truncated no",
        node.host()
    );
    Error::new(ErrorKind::DurabilityUnavailable, message).operation("connect")
}
