//! Where the queue of another library is.

use punctual::{Error, ErrorKind, Result};

/// A library whose format is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// BullMQ 5 and 6, for Node.js.
    Bullmq,
    /// Sidekiq, for Ruby.
    Sidekiq,
    /// Celery on Redis, for Python.
    Celery,
    /// RQ, for Python.
    Rq,
}

impl Library {
    /// Every library.
    pub const ALL: [Self; 4] = [Self::Bullmq, Self::Sidekiq, Self::Celery, Self::Rq];

    /// The scheme of its addresses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bullmq => "bullmq",
            Self::Sidekiq => "sidekiq",
            Self::Celery => "celery",
            Self::Rq => "rq",
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) library: Library,
    /// The server, as clients of Redis write it.
    pub(super) redis: String,
    pub(super) queue: String,
    /// In front of every key, where a library has such.
    pub(super) prefix: Option<String>,
}

fn wrong(what: &str) -> Error {
    let message = format!(
        "{what}; write bullmq://HOST:PORT/QUEUE, or sidekiq, celery or rq in front; ?db=N and \
         &prefix=P may follow"
    );
    Error::new(ErrorKind::InvalidInput, message)
}

impl Address {
    /// An error does not repeat the address, which may have a password.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| wrong("the address has no ://"))?;
        let library = Library::ALL.into_iter().find(|one| one.name() == scheme);
        let library = library.ok_or_else(|| wrong("the library is not known"))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (server, queue) = place
            .split_once('/')
            .ok_or_else(|| wrong("the address has no queue"))?;
        let queue = decoded(queue).ok_or_else(|| wrong("the queue has a malformed % code"))?;
        if queue.is_empty() || queue.len() > 512 {
            return Err(wrong("the queue is empty or too long"));
        }
        let host = server.rsplit('@').next().unwrap_or_default();
        if host.is_empty() || host.starts_with(':') {
            return Err(wrong("the address has no host"));
        }
        let (mut database, mut prefix) = (0_u32, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("db", number)) => {
                    let number = number.parse();
                    database = number.map_err(|_| wrong("db is not a number"))?;
                }
                Some(("prefix", text)) => {
                    let text = decoded(text);
                    prefix = Some(text.ok_or_else(|| wrong("the prefix has a malformed % code"))?);
                }
                _ => {
                    return Err(wrong(
                        "the address has another parameter than db and prefix",
                    ));
                }
            }
        }
        let port = match host.rsplit_once(']').map_or(host, |(_, port)| port) {
            with if with.contains(':') => "",
            _ => ":6379",
        };
        Ok(Self {
            library,
            redis: format!("redis://{server}{port}/{database}"),
            queue,
            prefix,
        })
    }
}

/// A text with `%2F` and the like.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                let digits = std::str::from_utf8(&digits).ok()?;
                u8::from_str_radix(digits, 16).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_a_server_a_database_and_a_queue() {
        let address = Address::parse("bullmq://u:p@127.0.0.1:7000/mail%2Fout?db=3&prefix=app");
        assert_eq!(
            address.expect("an address"),
            Address {
                library: Library::Bullmq,
                redis: "redis://u:p@127.0.0.1:7000/3".into(),
                queue: "mail/out".into(),
                prefix: Some("app".into()),
            }
        );
        let short = Address::parse("rq://cache/mail").expect("an address");
        assert_eq!(short.redis, "redis://cache:6379/0");
        let six = Address::parse("rq://[::1]/mail").expect("an address");
        assert_eq!(six.redis, "redis://[::1]:6379/0");
        for wrong in [
            "bull://h/q",
            "mail",
            "rq://h",
            "rq://h/",
            "rq:///q",
            "rq://h/q?db=x",
            "rq://h/%zz",
            "rq://h/q?shard=1",
            "rq://s3cr3t@/q",
        ] {
            let error = Address::parse(wrong).expect_err(wrong);
            assert!(!error.to_string().contains("s3cr3t"), "{error}");
        }
    }
}
