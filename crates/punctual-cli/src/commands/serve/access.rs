//! Who may ask a server: tokens from files, the environment and `punctual.toml`, or a new one.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

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
    /// Whose jobs there are, as far as tokens tell.
    pub(super) namespaces: Vec<Namespace>,
}

impl Access {
    /// Everybody here may do everything.
    pub(super) fn open(namespace: Namespace) -> Self {
        Self {
            tokens: Tokens::open(),
            made: None,
            namespaces: vec![namespace],
        }
    }

    /// Those in the file, in the environment and in the configuration; a new one if there is none.
    pub(super) fn by(file: Option<&Path>, config: &Config, namespace: &Namespace) -> Result<Self> {
        let mut known = config.tokens()?;
        if let Some(path) = file {
            warn_if_others_can_read(path);
            known.extend(read_tokens(path)?);
        }
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
        let theirs = known.iter().map(Token::namespace);
        let mut namespaces: Vec<_> = theirs.chain([namespace]).cloned().collect();
        namespaces.sort();
        namespaces.dedup();
        Ok(Self {
            tokens: Tokens::new(known),
            made,
            namespaces,
        })
    }
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
    let told = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let mut tokens = Vec::new();
    for (number, line) in told {
        let token = Token::parse(line).map_err(|error| {
            let message = format!("line {number} of {} is no token", path.display());
            Failure::usage(message).hint(error.message())
        })?;
        tokens.push(token);
    }
    if tokens.is_empty() {
        return Err(Failure::usage(format!("{} has no token", path.display()))
            .hint("write one per line: TOKEN NAMESPACE SCOPE[,SCOPE]"));
    }
    Ok(tokens)
}
