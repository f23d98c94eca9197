//! Which callers a server accepts: tokens from files, the environment and `punctual.toml`, or a new
//! one.

use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use punctual::Namespace;
use punctual_gateway::{Scope, Token, Tokens};

use super::config::Config;
use crate::connect::TOKEN;
use crate::failure::{Failure, Result};

/// Tokens, and what may be shown of them.
pub(super) struct Access {
    pub(super) tokens: Tokens,
    /// Made just now: the only time that it is shown.
    pub(super) made: Option<String>,
    /// Whose jobs there are, as far as tokens name them.
    pub(super) namespaces: Vec<Namespace>,
    /// The namespace that the printed command names: the server's own if a token is for it.
    pub(super) shown: Namespace,
    /// Names of tokens that are easy to guess.
    weak: Vec<String>,
    /// The files and the variable that they came from; `None` where no token is needed.
    sources: Option<Sources>,
}

/// Where tokens are read from.
pub(super) struct Sources {
    file: Option<PathBuf>,
    config: Option<PathBuf>,
    /// Of the environment, or made: they do not change.
    fixed: Vec<Token>,
}

impl Access {
    /// Everybody here may do everything.
    pub(super) fn open(namespace: Namespace) -> Self {
        Self {
            tokens: Tokens::open(),
            made: None,
            shown: namespace.clone(),
            namespaces: vec![namespace],
            weak: Vec::new(),
            sources: None,
        }
    }

    /// Those in the file, in the environment and in the configuration; a new one if there is none.
    pub(super) fn by(
        file: Option<PathBuf>,
        config_file: Option<PathBuf>,
        config: &Config,
        namespace: &Namespace,
    ) -> Result<Self> {
        let mut known = tokens_of(file.as_deref(), config)?;
        let in_files = known.len();
        let chosen = std::env::var(TOKEN).ok().filter(|token| !token.is_empty());
        if let Some(text) = &chosen {
            let token = Token::new(text, namespace.clone(), &Scope::ALL)?;
            known.push(token.named(TOKEN));
        }
        let mut made = None;
        if known.is_empty() {
            let text = Token::generate();
            let token = Token::new(&text, namespace.clone(), &Scope::ALL)?;
            known.push(token.named("printed"));
            made = Some(text);
        }
        let mut of_tokens = known.iter().map(Token::namespace);
        let has_own = of_tokens.clone().any(|one| one == namespace);
        let first = of_tokens.next().filter(|_| !has_own);
        let shown = first.unwrap_or(namespace).clone();
        let theirs = known.iter().map(Token::namespace);
        let mut namespaces: Vec<_> = theirs.chain([namespace]).cloned().collect();
        namespaces.sort();
        namespaces.dedup();
        let weak = known.iter().filter(|token| token.is_weak());
        Ok(Self {
            weak: weak.map(|token| token.name().to_owned()).collect(),
            sources: Some(Sources {
                file,
                config: config_file,
                fixed: known[in_files..].to_vec(),
            }),
            tokens: Tokens::new(known),
            made,
            namespaces,
            shown,
        })
    }

    /// Names of tokens that a client of that address may guess.
    pub(super) fn weak_at(&self, address: IpAddr, is_secure: bool) -> &[String] {
        match address.is_loopback() || is_secure {
            true => &[],
            false => &self.weak,
        }
    }

    /// Reads the files again: tokens that are there now are good, and those that are gone are not.
    /// How many there are; nothing if none of them came from a file.
    pub(super) fn read_again(&self) -> Option<Result<usize>> {
        let sources = self.sources.as_ref()?;
        sources.file.as_ref().or(sources.config.as_ref())?;
        let read = || {
            let config = match &sources.config {
                Some(path) => Config::read(path)?,
                None => Config::default(),
            };
            let mut known = tokens_of(sources.file.as_deref(), &config)?;
            known.extend_from_slice(&sources.fixed);
            let count = known.len();
            self.tokens.replace(known);
            Ok(count)
        };
        Some(read())
    }
}

/// Those of the file and of the configuration.
fn tokens_of(file: Option<&Path>, config: &Config) -> Result<Vec<Token>> {
    let mut known = config.tokens()?;
    if let Some(path) = file {
        warn_if_others_can_read(path);
        known.extend(read_tokens(path)?);
    }
    Ok(known)
}

/// Says so if a file with a secret is open to other users of this machine.
pub(super) fn warn_if_others_can_read(path: &Path) {
    let mode = std::fs::metadata(path).map_or(0, |file| file.permissions().mode());
    if mode & 0o007 != 0 {
        let path = path.display();
        tracing::warn!("{path} holds a secret and every user can read it; chmod o= {path}");
    }
}

fn read_tokens(path: &Path) -> Result<Vec<Token>> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| Failure::file("read", path, &error))?;
    let lines = (1..).zip(text.lines());
    let reported = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let mut tokens = Vec::new();
    for (number, line) in reported {
        let token = Token::parse(line).map_err(|error| {
            let message = format!("line {number} of {} is not a token", path.display());
            Failure::usage(message).hint(error.message())
        })?;
        tokens.push(token);
    }
    if tokens.is_empty() {
        return Err(Failure::usage(format!("{} has no token", path.display()))
            .hint("write one per line: TOKEN NAMESPACE SCOPE[,SCOPE] [until=INSTANT]"));
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests;
