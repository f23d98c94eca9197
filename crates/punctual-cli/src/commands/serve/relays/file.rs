//! The relay file: what each namespace may reach, and relays with the options of their commands.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use clap::{CommandFactory, Parser};
use punctual::Namespace;
use serde::Deserialize;
use toml::Value;

use super::allow::Allow;
use super::secret::is_secret;
use crate::commands::keys;
use crate::commands::relay::{Command, Prepared};
use crate::commands::serve::access::warn_if_others_can_read;
use crate::failure::{Failure, Result};

/// One server runs at most so many.
const RELAYS_MAX: usize = 100;
/// Options of a command that mean nothing to a server.
const OF_A_COMMAND: [&str; 3] = ["until-idle", "every", "dry-run"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// By namespace.
    #[serde(default)]
    allow: BTreeMap<String, Allow>,
    #[serde(default, rename = "relay")]
    relays: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    name: String,
    kind: String,
    namespace: Option<String>,
    /// The options of `punctual relay KIND`.
    #[serde(flatten)]
    options: BTreeMap<String, Value>,
}

/// The line of a command, without `punctual relay`.
#[derive(Debug, Parser)]
#[command(name = "relay", no_binary_name = true, disable_help_flag = true)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

pub(super) fn read(path: &Path, home: &Namespace) -> Result<Vec<(Namespace, Prepared)>> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| Failure::file("read", path, &error))?;
    let shown = path.display();
    let hint = "deploy/relays.toml shows every setting";
    let file: File = toml::from_str(&text).map_err(|error| {
        let begin = error.span().map_or(0, |span| span.start);
        let line = 1 + text[..begin.min(text.len())].matches('\n').count();
        Failure::usage(format!("line {line} of {shown}: {}", error.message())).hint(hint)
    })?;
    if file.has_secrets() {
        warn_if_others_can_read(path);
    }
    let wrong = |name: &str, why: &str| {
        Failure::usage(format!("relay {name:?} of {shown}: {why}")).hint(hint)
    };
    if file.relays.len() > RELAYS_MAX {
        let why = format!("{shown} has over {RELAYS_MAX} relays; use another server for some");
        return Err(Failure::usage(why));
    }
    let (mut relays, mut names) = (Vec::new(), BTreeSet::new());
    for entry in &file.relays {
        let dir = path.parent().unwrap_or(Path::new(""));
        let prepared = entry.prepare(&file.allow, home, dir);
        let (namespace, prepared) = prepared.map_err(|why| wrong(&entry.name, &why))?;
        if !names.insert((namespace.to_string(), entry.name.clone())) {
            return Err(wrong(
                &entry.name,
                "another one of the namespace has its name",
            ));
        }
        relays.push((namespace, prepared));
    }
    Ok(relays)
}

impl File {
    /// Whether a value that stands here is for few eyes.
    fn has_secrets(&self) -> bool {
        let mut options = self.relays.iter().flat_map(|entry| &entry.options);
        options.any(|(_, value)| match value {
            Value::Array(values) => values.iter().filter_map(Value::as_str).any(is_secret),
            value => value.as_str().is_some_and(is_secret),
        })
    }
}

impl Entry {
    fn prepare(
        &self,
        allow: &BTreeMap<String, Allow>,
        home: &Namespace,
        dir: &Path,
    ) -> Result<(Namespace, Prepared), String> {
        let said = |error: punctual::Error| error.message().to_owned();
        let namespace = match &self.namespace {
            Some(name) => Namespace::new(name.clone()).map_err(said)?,
            None => home.clone(),
        };
        let line = self.line(dir)?;
        let keys = self.options.keys().map(String::as_str);
        let line = Line::try_parse_from(line).map_err(|error| keys::message(&error, keys))?;
        let none = Allow::default();
        let allow = allow.get(namespace.as_str()).unwrap_or(&none);
        // A sink whose jobs name exchanges gets the list; an empty one lets nothing pass.
        if matches!(line.command, Command::AmqpEmit(_)) && allow.exchanges.is_empty() {
            return Err(format!(
                "the namespace {namespace} may reach no exchange; add some to exchanges of \
                 [allow.{namespace}]"
            ));
        }
        let prepared = line.command.prepare(Some(&allow.exchanges));
        let prepared = prepared.map_err(|failure| match failure.shown_hint() {
            Some(hint) => format!("{}; {}", failure.message(), keys::as_words(hint)),
            None => failure.message().to_owned(),
        })?;
        for reach in &prepared.reaches {
            allow.check(namespace.as_str(), reach)?;
        }
        Ok((namespace, prepared))
    }

    /// The line of the command.
    fn line(&self, dir: &Path) -> Result<Vec<String>, String> {
        let relays = Line::command();
        let command = relays.find_subcommand(&self.kind).ok_or_else(|| {
            let known = relays.get_subcommands().map(clap::Command::get_name);
            let mut known: Vec<&str> = known.collect();
            known.sort_unstable();
            let known = known.join(", ");
            format!(
                "the kind {:?} is not known; the kinds are {known}",
                self.kind
            )
        })?;
        let mut line = vec![self.kind.clone(), format!("--name={}", self.name)];
        for (key, value) in &self.options {
            if OF_A_COMMAND.contains(&keys::dashed(key).as_str()) {
                return Err(format!("{key} is for a command at a prompt; leave it out"));
            }
            let text = |value: &Value| text_of(key, value, dir);
            line.extend(keys::words(command, key, value, text)?);
        }
        Ok(line)
    }
}

/// A value of an option: as it stands, or of a variable or a file, for secrets.
fn text_of(name: &str, value: &Value, dir: &Path) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Table(table) => match (table.get("env"), table.get("file"), table.len()) {
            (Some(Value::String(variable)), None, 1) => std::env::var(variable)
                .map_err(|_| format!("{name}: the environment variable {variable} is not set")),
            (None, Some(Value::String(file)), 1) => {
                let path = dir.join(file);
                let text = std::fs::read_to_string(&path);
                let text = text.map_err(|error| {
                    format!("{name}: {} cannot be read: {error}", path.display())
                })?;
                if is_secret(&text) {
                    warn_if_others_can_read(&path);
                }
                Ok(text.trim().to_owned())
            }
            _ => Err(format!("{name}: set one of env and file")),
        },
        _ => Err(format!(
            "{name}: write a text, a whole number, true or a list"
        )),
    }
}

#[cfg(test)]
mod tests;
