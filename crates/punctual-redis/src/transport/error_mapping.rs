//! Maps errors of a server to errors of the contract, and to what the caller does about them.

use punctual::{Error, ErrorKind};
use redis::RedisError;

use crate::transport::address::Host;

/// What a caller does about an error of a server.
#[derive(Debug)]
pub(crate) enum Recovery {
    /// Send the call to that node from now on.
    Moved(Host),
    /// Refresh the topology, and try again a little later.
    Later,
    /// Load the library, and try again at once.
    Load,
    /// The connection broke: the call may have been done.
    Broken,
    /// No second try helps.
    Final(Error),
}

/// The recovery action for an error of a call.
pub(crate) fn recovery(error: &RedisError, host: &Host) -> Recovery {
    let code = error.code().unwrap_or("");
    let said = error.detail().unwrap_or("");
    match code {
        "MOVED" => target(said, host).map_or(Recovery::Later, Recovery::Moved),
        // Half of a shard is there and half here, and no call is right on either half: it is asked
        // again until it has moved.
        "ASK" => Recovery::Later,
        "TRYAGAIN" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "READONLY" | "BUSY"
        | "UNKILLABLE" => Recovery::Later,
        "ERR" if said.contains("Function not found") => Recovery::Load,
        "" => Recovery::Broken,
        _ => Recovery::Final(refused(code, said)),
    }
}

/// Whether functions of another version may have said that of what they do not know.
pub(crate) fn may_be_of_other_functions(error: &Error) -> bool {
    use ErrorKind::{DataDamaged, Internal, InvalidInput, Unsupported};
    let kinds = [DataDamaged, Internal, InvalidInput, Unsupported];
    kinds.contains(&error.kind()) && error.message() != TOUCH
}

/// An error that ends by itself or once the operator acts, for a call whose deadline comes first.
pub(crate) fn temporary(error: &RedisError, host: &Host) -> Error {
    let said = error.detail().unwrap_or("");
    let message = match error.code().unwrap_or("") {
        "ASK" => {
            let to =
                target(said, host).map_or("another node".into(), |to| format!("redis at {to}"));
            format!(
                "the slot of these jobs is moving from redis at {host} to {to} (ASK), and half of them \
                 answers nothing; let the move end"
            )
        }
        "TRYAGAIN" => format!(
            "the slot of these jobs is moving to or from redis at {host} (TRYAGAIN), and half of them \
             answers nothing; let the move end"
        ),
        "READONLY" => format!(
            "redis at {host} is a replica and takes no changes (READONLY); give the address of its master, \
             or of the sentinels that know it"
        ),
        "LOADING" => format!(
            "redis at {host} is still reading its data (LOADING); its log shows how far it is"
        ),
        "BUSY" => format!(
            "redis at {host} answers no call while a script runs (BUSY); end it with SCRIPT \
             KILL or FUNCTION KILL"
        ),
        "MASTERDOWN" => format!(
            "redis at {host} is a replica that has lost its master (MASTERDOWN); start that, or give the \
             address of the sentinels that know another"
        ),
        "CLUSTERDOWN" => format!(
            "the redis cluster of {host} has slots that no node answers for ({said}); start its nodes"
        ),
        _ => format!("redis at {host} cannot answer now: {error}"),
    };
    Error::new(ErrorKind::EngineUnavailable, message)
}

/// `3999 127.0.0.1:6381`; a node that does not know its own name leaves it empty: the one asked.
fn target(said: &str, asked: &Host) -> Option<Host> {
    let (name, port) = said.split_once(' ')?.1.rsplit_once(':')?;
    let name = if name.is_empty() { &asked.name } else { name };
    Some(Host {
        name: name.into(),
        port: port.parse().ok()?,
    })
}

/// How 7.0 says of a command inside a function what it calls `NOPERM` outside.
const MAY_NOT: &str = "The user executing the script can't";

/// What a server says of its user begins so.
const DENIES: &str = "redis refuses ";

/// A user that could call a shard before, and may not any more or is known no more, says nothing of
/// what was called: to its sender the engine is away until an operator mends that.
pub(crate) fn temporary_if_denied(error: Error) -> Error {
    let is_denied = error.kind() == ErrorKind::InvalidInput && error.message().starts_with(DENIES);
    if !is_denied {
        return error;
    }
    Error::new(ErrorKind::EngineUnavailable, error.message())
}

/// What a server answers to a call that it may have done before: a refusal for its state says
/// nothing of that.
pub(crate) fn unknown_outcome(error: Error) -> Error {
    match error.kind() {
        ErrorKind::EngineFull | ErrorKind::DurabilityUnavailable => unknown(error.message()),
        _ => error,
    }
}

/// The same error for one more caller.
pub(crate) fn again(error: &Error) -> Error {
    let same = Error::new(error.kind(), error.message()).operation(error.operation_name());
    error
        .context()
        .fold(same, |same, (name, value)| same.with(name, value))
}

/// A call that may have been done.
pub(crate) fn unknown(why: &str) -> Error {
    let message = format!("{why}; whether the call was done is unknown: send the same ids again");
    Error::new(ErrorKind::EngineUnavailable, message)
}

/// A refusal that no second try mends.
pub(crate) fn refused(code: &str, said: &str) -> Error {
    let (kind, message) = match code {
        "ERR" if said.contains(MAY_NOT) => return refused("NOPERM", said),
        "OOM" => (
            ErrorKind::EngineFull,
            "redis has reached its maxmemory; give it more, or let workers empty the queues".into(),
        ),
        "MISCONF" => (
            ErrorKind::EngineFull,
            format!(
                "redis takes no writes because it cannot save to disk; look at its log ({said})"
            ),
        ),
        "NOREPLICAS" => (
            ErrorKind::DurabilityUnavailable,
            "redis has fewer good replicas than min-replicas-to-write asks for; start them".into(),
        ),
        "NOAUTH" | "WRONGPASS" => (
            ErrorKind::InvalidInput,
            format!("{DENIES}the user or the password; give them in the address as USER:PASSWORD@"),
        ),
        "NOPERM" => (
            ErrorKind::InvalidInput,
            format!(
                "{DENIES}a command to this user; give it the rules of docs/engines/redis.md ({said})"
            ),
        ),
        "WRONGTYPE" => (
            ErrorKind::DataDamaged,
            format!(
                "a key under punctual: holds what is not punctual's; rename or delete it ({said})"
            ),
        ),
        "ERR" if said.contains("unknown command") => (
            ErrorKind::Unsupported,
            format!("the server has no functions; use Redis 7.0 or later, or Valkey ({said})"),
        ),
        _ => return of_library(code, said),
    };
    Error::new(kind, message)
}

/// The message of a read that found something to be done before it.
pub(crate) const TOUCH: &str = "touch";

/// Names of values that the functions put behind a message, in brackets.
const VALUES: [&str; 7] = [
    "flow",
    "step",
    "waits_for",
    "schedule",
    "job",
    "name",
    "key",
];
/// Those that the rule of names lets through as they are: nothing in them has to be quoted.
const UNQUOTED: [&str; 4] = ["flow", "step", "waits_for", "schedule"];

/// A message without its values, `MESSAGE (NAME: VALUE, NAME: VALUE)`, and these. A value may come
/// from a caller, and then it is quoted: what is no name inside of it belongs to it.
fn apart(message: &str) -> (&str, Vec<(&'static str, String)>) {
    let none = (message, Vec::new());
    let starts = VALUES
        .iter()
        .filter_map(|name| message.find(&format!(" ({name}: ")));
    let Some((start, inner)) = starts
        .min()
        .and_then(|at| Some((at, message[at + 2..].strip_suffix(')')?)))
    else {
        return none;
    };
    let mut values: Vec<(&'static str, String)> = Vec::new();
    for piece in inner.split(", ") {
        let named = piece.split_once(": ").and_then(|(name, value)| {
            let name = VALUES.into_iter().find(|known| *known == name)?;
            Some((name, value.to_owned()))
        });
        match (named, values.last_mut()) {
            (Some(named), _) => values.push(named),
            (None, Some((_, value))) => *value = format!("{value}, {piece}"),
            (None, None) => return none,
        }
    }
    for (name, value) in &mut values {
        let inside = value
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'));
        if let Some(inside) = inside.filter(|_| UNQUOTED.contains(name)) {
            *value = inside.to_owned();
        }
    }
    (&message[..start], values)
}

/// An error that the functions answer: `PUNCTUAL CODE MESSAGE`, with numbers at its end.
fn of_library(code: &str, said: &str) -> Error {
    if code != "PUNCTUAL" {
        let message = format!("redis refused a call: {code} {said}");
        return Error::new(ErrorKind::Internal, message);
    }
    // The server adds where in the functions that was.
    let said = said.split(" script: ").next().unwrap_or(said).trim_end();
    let (code, message) = said.split_once(' ').unwrap_or((said, ""));
    let kind = match code {
        TOUCH => return Error::new(ErrorKind::Internal, TOUCH),
        "invalid_input" => ErrorKind::InvalidInput,
        "invalid_name" => ErrorKind::InvalidName,
        "invalid_delay" => ErrorKind::InvalidDelay,
        "payload_too_large" => ErrorKind::PayloadTooLarge,
        "batch_too_large" => ErrorKind::BatchTooLarge,
        "version_conflict" => ErrorKind::VersionConflict,
        "conflict" => ErrorKind::Conflict,
        "not_found" => ErrorKind::NotFound,
        "unsupported" => ErrorKind::Unsupported,
        "data_damaged" => ErrorKind::DataDamaged,
        "engine_full" => ErrorKind::EngineFull,
        "shards_differ" => ErrorKind::InvalidInput,
        "engine_data_missing" => return missing(),
        _ => ErrorKind::Internal,
    };
    let mut words: Vec<&str> = message.split(' ').collect();
    let mut numbers = Vec::new();
    while let Some((name, number)) = words.last().and_then(|word| word.split_once('=')) {
        let Some(name) = ["index", "version"]
            .into_iter()
            .find(|known| *known == name)
        else {
            break;
        };
        numbers.push((name, number));
        words.pop();
    }
    let message = words.join(" ");
    let (message, values) = apart(&message);
    let error = values
        .into_iter()
        .fold(Error::new(kind, message), |error, (name, value)| {
            error.with(name, value)
        });
    let numbers = numbers.into_iter().rev();
    numbers.fold(error, |error, (name, number)| error.with(name, number))
}

/// A shard that held jobs holds nothing any more, or another's.
fn missing() -> Error {
    let message = "redis has lost the jobs of this namespace: it was flushed, started empty, or \
         is another server or database; bring the data back, or restart this process to begin anew";
    Error::new(ErrorKind::DataMissing, message)
}

/// A server to which there is no connection.
pub(crate) fn unreachable(host: &Host, error: &RedisError) -> Error {
    match error.code() {
        Some(code @ ("NOAUTH" | "WRONGPASS" | "NOPERM")) => refused(code, ""),
        Some("ERR") if error.to_string().contains("DB index") => Error::new(
            ErrorKind::InvalidInput,
            "redis has no database of that number; write one that it has",
        ),
        _ => {
            let said = error.to_string();
            if let Some(message) = bad_certificate(host, &said) {
                return Error::new(ErrorKind::InvalidInput, message);
            }
            let message = match error.kind() {
                redis::ErrorKind::AuthenticationFailed => return refused("WRONGPASS", ""),
                _ => format!("redis at {host} cannot be reached: {said}"),
            };
            Error::new(ErrorKind::EngineUnavailable, message)
        }
    }
}

/// What is wrong with the certificate that a server shows or is not shown, which no second try
/// mends.
fn bad_certificate(host: &Host, said: &str) -> Option<String> {
    if said.contains("CertificateRequired") {
        return Some(format!(
            "redis at {host} wants a certificate of who comes; give it one with ?cert=FILE&key=FILE, or \
             set tls-auth-clients no there"
        ));
    }
    if !said.contains("invalid peer certificate") {
        return None;
    }
    let is = |signs: &[&str]| signs.iter().any(|sign| said.contains(sign));
    let (what, remedy) = if is(&["CaUsedAsEndEntity"]) {
        (
            "shows the certificate of an authority as its own",
            "make one for the host, by openssl with -addext basicConstraints=critical,CA:FALSE",
        )
    } else if is(&["certificate expired", "Expired"]) {
        (
            "shows a certificate that has expired",
            "give the server a new one; if it is good, look at the clock of this machine",
        )
    } else if is(&["not valid yet", "NotValidYet"]) {
        (
            "shows a certificate that is not valid yet",
            "look at the clock of this machine, or give the server one that is",
        )
    } else if is(&["not valid for name", "NotValidForName"]) {
        (
            "shows a certificate of another host",
            "write the name that it is for into the address, or give the server one with this name as its \
             subjectAltName",
        )
    } else if is(&["UnknownIssuer"]) {
        (
            "shows a certificate of an authority that is not known here",
            "name that authority's own with ?ca=FILE",
        )
    } else {
        (
            "shows a certificate that is not good",
            "give it another one",
        )
    };
    Some(format!("redis at {host} {what}; {remedy} ({said})"))
}

#[cfg(test)]
mod tests;
