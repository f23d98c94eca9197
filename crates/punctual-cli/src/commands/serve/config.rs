//! `punctual.toml`: what a server is told by a file. `deploy/punctual.toml` has every setting.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use punctual::Namespace;
use punctual::time::parse_span;
use punctual_gateway::{GatewayLimits, Scope, Token};
use serde::{Deserialize, Deserializer};

use super::access::warn_if_others_can_read;
use crate::failure::{Failure, Result};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    /// Paths in the file are relative to this.
    #[serde(skip)]
    dir: PathBuf,
    pub(super) engine: Option<String>,
    pub(super) listen: Option<SocketAddr>,
    #[serde(default)]
    pub(super) hosts: Vec<String>,
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
}

/// A span as text, such as `25s`.
#[derive(Debug, Clone, Copy)]
struct Span(Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let span = parse_span(&text).map_err(serde::de::Error::custom)?;
        Ok(Self(span))
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

    pub(super) fn drain(&self) -> Option<Duration> {
        self.drain.map(|span| span.0)
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
        let told = &self.limits;
        limits.connections = told.connections.unwrap_or(limits.connections).max(1);
        limits.connections_per_address = told.connections_per_address;
        limits.head = told.head.map_or(limits.head, |span| span.0);
        limits.body = told.body.map_or(limits.body, |span| span.0);
        limits.reader = told.reader.map_or(limits.reader, |span| span.0);
        limits.failures = told.failures.unwrap_or(limits.failures);
        limits
    }

    pub(super) fn tokens(&self) -> Result<Vec<Token>> {
        let named = |entry: &TokenEntry| {
            let wrong = |what: String| Failure::usage(format!("token {:?}: {what}", entry.name));
            let token = entry.token(&self.dir).map_err(wrong)?;
            Ok(token.named(&entry.name))
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
            (None, None, Some(name)) => {
                std::env::var(name).map_err(|_| format!("there is no {name} in the environment"))?
            }
            _ => return Err("it needs one of sha256, file and env".to_owned()),
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
