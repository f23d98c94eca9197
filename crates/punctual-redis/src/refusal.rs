//! What a server refuses, in the words of the contract.

use punctual::{Error, ErrorKind};
use redis::RedisError;

use crate::address::Host;

/// What a caller does about a server's refusal.
#[derive(Debug)]
pub(crate) enum Remedy {
    /// Send it to that node from now on.
    Moved(Host),
    /// Send this one to that node, with leave.
    Ask(Host),
    /// Look anew who answers for what, and try again a little later.
    Later,
    /// Load the library, and try again at once.
    Load,
    /// The connection broke: whether it was done is not known.
    Broken,
    /// Nothing can be done.
    Final(Error),
}

/// Sorts a refusal of a call.
pub(crate) fn remedy(error: &RedisError, host: &Host) -> Remedy {
    let code = error.code().unwrap_or("");
    let said = error.detail().unwrap_or("");
    match code {
        "MOVED" | "ASK" => match target(said, host) {
            Some(to) if code == "MOVED" => Remedy::Moved(to),
            Some(to) => Remedy::Ask(to),
            None => Remedy::Later,
        },
        "TRYAGAIN" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "READONLY" | "BUSY"
        | "UNKILLABLE" => Remedy::Later,
        "ERR" if said.contains("Function not found") => Remedy::Load,
        "" => Remedy::Broken,
        _ => Remedy::Final(refused(code, said)),
    }
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

/// A refusal that no second try mends.
pub(crate) fn refused(code: &str, said: &str) -> Error {
    let (kind, message) = match code {
        "OOM" => (
            ErrorKind::EngineFull,
            "redis has reached its maxmemory; give it more, or let workers empty the queues".into(),
        ),
        "MISCONF" => (
            ErrorKind::EngineFull,
            format!("redis takes no writes because it cannot save to disk; look at its log ({said})"),
        ),
        "NOREPLICAS" => (
            ErrorKind::DurabilityUnavailable,
            "redis has fewer good replicas than min-replicas-to-write asks for; start them".into(),
        ),
        "NOAUTH" | "WRONGPASS" => (
            ErrorKind::InvalidInput,
            "redis refuses the user or the password; give them in the address as USER:PASSWORD@"
                .into(),
        ),
        "NOPERM" => (
            ErrorKind::InvalidInput,
            format!("redis refuses a command to this user; give it the rules of `punctual doctor` ({said})"),
        ),
        "WRONGTYPE" => (
            ErrorKind::DataDamaged,
            format!("a key under punctual: holds what is not punctual's; rename or delete it ({said})"),
        ),
        _ => return of_library(code, said),
    };
    Error::new(kind, message)
}

/// An error that the functions library answers: a code of [`ErrorKind`] and a text.
fn of_library(code: &str, said: &str) -> Error {
    let text = match code {
        "ERR" => said.to_owned(),
        _ => format!("{code} {said}"),
    };
    Error::new(ErrorKind::Internal, format!("redis refused: {text}"))
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
            let message = match error.kind() {
                redis::ErrorKind::AuthenticationFailed => return refused("WRONGPASS", ""),
                _ => format!("redis at {host} cannot be reached: {error}"),
            };
            Error::new(ErrorKind::EngineUnavailable, message)
        }
    }
}
