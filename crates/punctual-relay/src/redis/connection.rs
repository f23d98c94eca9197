//! Where a key is, and a connection to there.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use futures_util::Stream;
use punctual::time::{seconds, within};
use punctual::{Error, ErrorKind, Result};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, FromRedisValue, Msg};

/// A key on a server.
#[derive(Clone)]
pub struct Place {
    client: Client,
    host: String,
    key: String,
}

/// What is published to a channel.
pub(crate) type Messages = Pin<Box<dyn Stream<Item = Msg> + Send>>;

/// How long a server may take to answer.
const ANSWER: Duration = seconds(10);
const KEY_BYTES_MAX: usize = 1024;

impl Place {
    /// The key at that address: `HOST:PORT`, or the form with a scheme, a user, a password and a
    /// database that clients of Redis share. One server, no cluster.
    pub fn new(address: &str, key: impl Into<String>) -> Result<Self> {
        let key = key.into();
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            let message = "the key is empty or too long; name one of 1 to 1,024 bytes";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        let whole = match address.contains("://") {
            true => address.to_owned(),
            false => format!("redis://{address}"),
        };
        // An error must not repeat the password that is in an address.
        let client = Client::open(whole).map_err(|_| {
            let message = "not an address of Redis; write one such as 127.0.0.1:6379";
            Error::new(ErrorKind::InvalidInput, message)
        })?;
        let host = client.get_connection_info().addr().to_string();
        Ok(Self { client, host, key })
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    pub(crate) fn database(&self) -> i64 {
        self.client.get_connection_info().redis_settings().db()
    }

    /// Its server and database, without the key.
    pub(crate) fn home(&self) -> String {
        format!("{} in {}", self.host, self.database())
    }

    /// A key beside it, in the same slot.
    pub(crate) fn beside(&self, name: &str) -> String {
        let key = &self.key;
        match key.contains('{') {
            true => format!("{key}:punctual:{name}"),
            false => format!("{{{key}}}:punctual:{name}"),
        }
    }

    pub(crate) async fn connect(&self) -> Result<Connection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None);
        let dialled = self
            .client
            .get_multiplexed_async_connection_with_config(&config);
        let link = match within(ANSWER, dialled).await {
            Some(Ok(link)) => link,
            Some(Err(error)) => return Err(self.failed(&error)),
            None => return Err(self.silent()),
        };
        let place = self.clone();
        Ok(Connection { link, place })
    }

    /// Listens to a channel, or to all that match if it has a `*`.
    pub(crate) async fn listen(&self, channel: &str) -> Result<Messages> {
        let listening = async {
            let mut listener = self.client.get_async_pubsub().await?;
            match channel.contains('*') {
                true => listener.psubscribe(channel).await?,
                false => listener.subscribe(channel).await?,
            }
            Ok(listener.into_on_message())
        };
        match within(ANSWER, listening).await {
            Some(Ok(messages)) => Ok(Box::pin(messages)),
            Some(Err(error)) => Err(self.failed(&error)),
            None => Err(self.silent()),
        }
    }

    fn failed(&self, error: &redis::RedisError) -> Error {
        let lacks = error.to_string().contains("unknown command");
        let code = code_of(error);
        let kind = match code.as_deref() {
            Some("WRONGTYPE" | "NOPERM") => ErrorKind::InvalidInput,
            _ if lacks => ErrorKind::Unsupported,
            _ => ErrorKind::EngineUnavailable,
        };
        let text = error.to_string();
        if text.contains("switch database") || text.contains("DB index is out of range") {
            let message = "the server refuses the database; name one that it has";
            return Error::new(ErrorKind::InvalidInput, message)
                .with("host", &self.host)
                .with("database", self.database())
                .with("error", error);
        }
        if is_login(error, code.as_deref()) {
            let message =
                "the server refuses the user or the password; check both in the address of Redis";
            let user = self
                .client
                .get_connection_info()
                .redis_settings()
                .username();
            return Error::new(ErrorKind::InvalidInput, message)
                .with("host", &self.host)
                .with("user", user.unwrap_or("default"))
                .with("error", error);
        }
        let answered = matches!(error.kind(), redis::ErrorKind::Server(_)) || code.is_some();
        let message = match code.as_deref() {
            _ if lacks => "the server is too old: it lacks a command; docs/relay.md names versions",
            Some("LOCKLOST") => "another migration of the queue has begun",
            Some("WRONGTYPE") => "the key holds another type; choose the relay for its type",
            Some("NOPERM") => "the user may not use the key; see ACL of the server",
            _ if answered => "the source on Redis refuses a command; the error says why",
            _ => "the source on Redis does not answer as it should; is it running?",
        };
        Error::new(kind, message)
            .with("host", &self.host)
            .with("key", &self.key)
            .with("error", error)
    }

    fn silent(&self) -> Error {
        let message = "the source on Redis did not answer in 10 s; is the way free?";
        Error::new(ErrorKind::EngineUnavailable, message).with("host", &self.host)
    }
}

/// Whether the server wants a password, or refused it: after a start of its own it may say so of an
/// `AUTH` that came with other commands.
fn is_login(error: &redis::RedisError, code: Option<&str>) -> bool {
    let text = error.to_string();
    // The last one is said of a command with many words.
    let is_said = [
        "WRONGPASS",
        "NOAUTH",
        "invalid password",
        "AUTH <password>",
        "unauthenticated",
    ];
    matches!(error.kind(), redis::ErrorKind::AuthenticationFailed)
        || matches!(code, Some("WRONGPASS" | "NOAUTH"))
        || is_said.iter().any(|said| text.contains(said))
}

/// The first code that the server answered, of a pipeline too.
fn code_of(error: &redis::RedisError) -> Option<String> {
    let errors = error.clone().into_server_errors();
    let first = errors.and_then(|errors| Some(errors.first()?.1.code().to_owned()));
    let code = first.or_else(|| error.code().map(str::to_owned));
    match code.as_deref() {
        Some("ERR") => code_in_script(&error.to_string()).or(code),
        _ => code,
    }
}

/// Before Redis 7 a script that fails answers `ERR`, and the code of its command is in the text:
/// `Error running script (call to f_..): @user_script:52: WRONGTYPE Operation ..`.
fn code_in_script(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("@user_script")?;
    let is_code =
        |word: &&str| word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase());
    rest.split_whitespace().find(is_code).map(str::to_owned)
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.key, self.host)
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Place({self})")
    }
}

/// A connection whose every call is bounded.
pub(crate) struct Connection {
    link: MultiplexedConnection,
    pub(crate) place: Place,
}

impl Connection {
    pub(crate) async fn ask<T: FromRedisValue>(&mut self, command: &redis::Cmd) -> Result<T> {
        match within(ANSWER, command.query_async(&mut self.link)).await {
            Some(answer) => answer.map_err(|error| self.place.failed(&error)),
            None => Err(self.place.silent()),
        }
    }

    pub(crate) async fn ask_all<T: FromRedisValue>(
        &mut self,
        calls: &redis::Pipeline,
    ) -> Result<T> {
        match within(ANSWER, calls.query_async(&mut self.link)).await {
            Some(answer) => answer.map_err(|error| self.place.failed(&error)),
            None => Err(self.place.silent()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::code_in_script;

    #[test]
    fn the_code_in_an_error_of_a_script_is_that_of_its_command() {
        let text = "An error was signalled by the server - ResponseError: Error running script (call to \
                    f_6b1): @user_script:52: WRONGTYPE Operation against a key holding the wrong \
                    kind of value";
        assert_eq!(code_in_script(text).as_deref(), Some("WRONGTYPE"));
        assert_eq!(code_in_script("ERR unknown command"), None);
        assert_eq!(code_in_script("@user_script: 1: no code"), None);
    }
}
