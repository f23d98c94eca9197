//! Options of commands that post jobs: allowed targets and secrets.

use std::path::PathBuf;

use punctual::{ErrorKind, Namespace};
use punctual_push::{Allow, Guard, Pusher, Secret};

use crate::failure::{Failure, Result};

/// Secrets of the namespace that is worked on, with commas between them.
const SECRET: &str = "PUNCTUAL_PUSH_SECRET";

#[derive(Debug, clap::Args)]
pub(crate) struct Pushing {
    /// Lets targets of jobs be there, though not public: HOST, HOST:PORT, CIDR or CIDR:PORT
    #[arg(long, value_name = "PLACE", help_heading = "Posting")]
    push_allow: Vec<Allow>,

    /// Secrets to sign with, one per line: whsec_.. or NAMESPACE whsec_..
    #[arg(long, value_name = "FILE", help_heading = "Posting")]
    secret_file: Option<PathBuf>,
}

/// Secrets, and whose jobs are signed by each.
#[derive(Debug)]
pub(crate) struct Secrets(Vec<(Namespace, Secret)>);

impl Pushing {
    /// What targets of jobs are held against.
    pub(crate) fn guard(&self) -> Guard {
        Guard::new().allow(self.push_allow.iter().cloned())
    }

    /// The secrets of the file and of the environment; those that name no namespace are `own`'s.
    pub(crate) fn secrets(&self, own: &Namespace) -> Result<Secrets> {
        let mut secrets = Vec::new();
        if let Some(path) = &self.secret_file {
            let text = std::fs::read_to_string(path);
            let text = text.map_err(|error| Failure::file("read", path, &error))?;
            let lines = (1..).zip(text.lines());
            let reported =
                lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
            for (number, line) in reported {
                secrets.push(secret_of(line, own).map_err(|error| {
                    let place = path.display();
                    Failure::usage(format!("line {number} of {place} is not a secret"))
                        .hint(error.message())
                })?);
            }
        }
        let chosen = std::env::var(SECRET).unwrap_or_default();
        for text in chosen.split(',').filter(|text| !text.trim().is_empty()) {
            secrets.push(secret_of(text, own).map_err(|error| {
                Failure::usage(format!("{SECRET} has an invalid secret")).hint(error.message())
            })?);
        }
        Ok(Secrets(secrets))
    }

    /// What posts the jobs of that namespace.
    pub(crate) fn pusher(&self, namespace: &Namespace) -> Result<Pusher> {
        Ok(Pusher::new(self.guard())
            .namespace(namespace.clone())
            .secrets(self.secrets(namespace)?.of(namespace)))
    }
}

impl Secrets {
    /// Those of one namespace: the secret of one namespace never signs jobs of another.
    pub(crate) fn of(&self, namespace: &Namespace) -> Vec<Secret> {
        let owned = self.0.iter().filter(|(owner, _)| owner == namespace);
        owned.map(|(_, secret)| secret.clone()).collect()
    }
}

/// Reads `whsec_..`, or a namespace and that.
fn secret_of(line: &str, own: &Namespace) -> punctual::Result<(Namespace, Secret)> {
    let mut words = line.split_whitespace();
    match (words.next(), words.next(), words.next()) {
        (Some(secret), None, None) => Ok((own.clone(), secret.parse()?)),
        (Some(namespace), Some(secret), None) => Ok((Namespace::new(namespace)?, secret.parse()?)),
        _ => Err(punctual::Error::new(
            ErrorKind::InvalidInput,
            "write whsec_.., or a namespace and whsec_..",
        )),
    }
}
