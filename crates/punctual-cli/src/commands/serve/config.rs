//! `punctual.toml`, the settings file of a server. `deploy/punctual.toml` has every setting.

use std::path::{Path, PathBuf};
use std::time::Duration;

use punctual::Namespace;
use punctual::time::{Timestamp, parse_span};
use punctual_gateway::{GatewayLimits, Proxy, Scope, Token};
use serde::{Deserialize, Deserializer};

use super::access::warn_if_others_can_read;
use crate::args::{Listen, listen_of};
use crate::failure::{Failure, Result};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    /// Paths in the file are relative to this.
    #[serde(skip)]
    dir: PathBuf,
    pub(super) engine: Option<String>,
    listen: Option<Written<Listen>>,
    #[serde(default)]
    pub(super) hosts: Vec<String>,
    #[serde(default)]
    trusted_proxies: Vec<Written<Proxy>>,
    drain: Option<Span>,
    audit: Option<PathBuf>,
    tls: Option<TlsFiles>,
    #[serde(default)]
    limits: Limits,
    #[serde(default, rename = "token")]
    tokens: Vec<TokenEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TlsFiles {
    cert: PathBuf,
    key: PathBuf,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    connections: Option<usize>,
    connections_per_address: Option<usize>,
    head: Option<Span>,
    body: Option<Span>,
    body_bytes: Option<usize>,
    body_bytes_per_namespace: Option<usize>,
    body_bytes_per_token: Option<usize>,
    reader: Option<Span>,
    failures: Option<u32>,
}

/// One of `sha256`, `file` and `env` says what the token is: it never stands here itself.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenEntry {
    name: String,
    namespace: Option<String>,
    scopes: Vec<String>,
    sha256: Option<String>,
    file: Option<PathBuf>,
    env: Option<String>,
    /// Good until then.
    expires: Option<Written<Timestamp>>,
}

/// Something that stands there as text.
#[derive(Debug, Clone)]
struct Written<T>(T);

/// A span, such as `25s`.
type Span = Written<Duration>;

trait Text: Sized {
    fn read(text: &str) -> std::result::Result<Self, String>;
}

impl Text for Duration {
    fn read(text: &str) -> std::result::Result<Self, String> {
        parse_span(text).map_err(|error| error.message().to_owned())
    }
}

impl Text for Timestamp {
    fn read(text: &str) -> std::result::Result<Self, String> {
        text.parse()
            .map_err(|error: punctual::Error| error.message().to_owned())
    }
}

impl Text for Listen {
    fn read(text: &str) -> std::result::Result<Self, String> {
        listen_of(text)
    }
}

impl Text for Proxy {
    fn read(text: &str) -> std::result::Result<Self, String> {
        text.parse()
            .map_err(|error: punctual::Error| error.message().to_owned())
    }
}

impl<'de, T: Text> Deserialize<'de> for Written<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = |what| serde::de::Error::custom(format_args!("{text:?}: {what}"));
        T::read(&text).map(Self).map_err(wrong)
    }
}

impl Config {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| Failure::file("read", path, &error))?;
        let mut config = Self::parse(&text).map_err(|(line, message)| {
            let message = format!("line {line} of {}: {message}", path.display());
            Failure::usage(message).hint("deploy/punctual.toml shows every setting")
        })?;
        config.dir = path.parent().map(Into::into).unwrap_or_default();
        Ok(config)
    }

    /// What is wrong comes with its line.
    fn parse(text: &str) -> std::result::Result<Self, (usize, String)> {
        toml::from_str(text).map_err(|error| {
            let begin = error.span().map_or(0, |span| span.start);
            let line = 1 + text
                .bytes()
                .take(begin)
                .filter(|byte| *byte == b'\n')
                .count();
            (line, error.message().to_owned())
        })
    }

    pub(super) fn listen(&self) -> Option<Listen> {
        self.listen.as_ref().map(|listen| listen.0.clone())
    }

    pub(super) fn trusted_proxies(&self) -> Vec<Proxy> {
        self.trusted_proxies.iter().map(|proxy| proxy.0).collect()
    }

    pub(super) fn drain(&self) -> Option<Duration> {
        self.drain.as_ref().map(|span| span.0)
    }

    pub(super) fn audit_file(&self) -> Option<PathBuf> {
        self.audit.as_ref().map(|file| self.dir.join(file))
    }

    /// The chain of certificates and the key.
    pub(super) fn tls_files(&self) -> Option<(PathBuf, PathBuf)> {
        let tls = self.tls.as_ref()?;
        Some((self.dir.join(&tls.cert), self.dir.join(&tls.key)))
    }

    pub(super) fn limits(&self) -> GatewayLimits {
        let mut limits = GatewayLimits::default();
        let reported = &self.limits;
        limits.connections = reported.connections.unwrap_or(limits.connections).max(1);
        limits.connections_per_address = reported.connections_per_address;
        limits.head = reported.head.as_ref().map_or(limits.head, |span| span.0);
        limits.body = reported.body.as_ref().map_or(limits.body, |span| span.0);
        limits.body_bytes = reported.body_bytes.unwrap_or(limits.body_bytes);
        let namespace = reported.body_bytes_per_namespace;
        limits.body_bytes_per_namespace = namespace.unwrap_or(limits.body_bytes_per_namespace);
        let token = reported.body_bytes_per_token;
        limits.body_bytes_per_token = token.unwrap_or(limits.body_bytes_per_token);
        limits.reader = reported
            .reader
            .as_ref()
            .map_or(limits.reader, |span| span.0);
        limits.failures = reported.failures.unwrap_or(limits.failures);
        limits
    }

    pub(super) fn tokens(&self) -> Result<Vec<Token>> {
        let named = |entry: &TokenEntry| {
            let wrong = |what: String| Failure::usage(format!("token {:?}: {what}", entry.name));
            let token = entry.token(&self.dir).map_err(wrong)?;
            let token = token.named(&entry.name);
            Ok(match &entry.expires {
                Some(instant) => token.until(instant.0),
                None => token,
            })
        };
        self.tokens.iter().map(named).collect()
    }
}

impl TokenEntry {
    fn token(&self, dir: &Path) -> std::result::Result<Token, String> {
        let said = |error: punctual::Error| error.message().to_owned();
        let namespace = match &self.namespace {
            Some(name) => Namespace::new(name.clone()).map_err(said)?,
            None => Namespace::default(),
        };
        let scopes = self.scopes.iter().map(|scope| scope.parse());
        let scopes: Vec<Scope> = scopes.collect::<punctual::Result<_>>().map_err(said)?;
        let text = match (&self.sha256, &self.file, &self.env) {
            (Some(hex), None, None) => {
                let hash = bytes_of(hex).ok_or("sha256 is not 64 digits from 0 to f")?;
                return Ok(Token::of_hash(hash, namespace, &scopes));
            }
            (None, Some(file), None) => {
                let path = dir.join(file);
                warn_if_others_can_read(&path);
                let read = std::fs::read_to_string(&path);
                read.map_err(|error| format!("{} cannot be read: {error}", path.display()))?
            }
            (None, None, Some(name)) => std::env::var(name)
                .map_err(|_| format!("the environment variable {name} is not set"))?,
            _ => return Err("set one of sha256, file and env".to_owned()),
        };
        Token::new(text.trim(), namespace, &scopes).map_err(said)
    }
}

fn bytes_of(hex: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if hex.len() != 64 || !hex.is_ascii() {
        return None;
    }
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * place..2 * place + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests;
