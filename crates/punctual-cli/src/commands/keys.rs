//! Tables of a file whose keys are the options of a command. Errors name the keys as they
//! were written: a file has no command line.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command};
use toml::Value;

use crate::numbers::in_words;

/// The words of a command line that a key and its value stand for. `text_of` reads one value.
pub(crate) fn words(
    command: &Command,
    key: &str,
    value: &Value,
    text_of: impl Fn(&Value) -> Result<String, String>,
) -> Result<Vec<String>, String> {
    let option = option_of(command, key)?;
    let flag = format!("--{}", dashed(key));
    if matches!(option.get_action(), ArgAction::SetTrue) {
        return match value {
            Value::Boolean(set) => Ok(set.then_some(flag).into_iter().collect()),
            _ => Err(format!("{key}: write true or false")),
        };
    }
    match value {
        Value::Boolean(_) => Err(format!("{key}: write a value, not true or false")),
        Value::Array(_) if !matches!(option.get_action(), ArgAction::Append) => {
            Err(format!("{key}: write one value, not a list"))
        }
        Value::Array(values) => {
            let texts = values.iter().map(text_of);
            let word = |text| format!("{flag}={text}");
            texts
                .map(|text: Result<String, String>| text.map(word))
                .collect()
        }
        value => Ok(vec![format!("{flag}={}", text_of(value)?)]),
    }
}

/// The option of a key, which may have `_` or `-` between its words.
fn option_of<'a>(command: &'a Command, key: &str) -> Result<&'a Arg, String> {
    let long = dashed(key);
    let is_it = |option: &&Arg| option.get_long() == Some(long.as_str());
    command.get_arguments().find(is_it).ok_or_else(|| {
        let longs = command.get_arguments().filter_map(Arg::get_long);
        let places = command.get_positionals().map(|arg| arg.get_id().as_str());
        let mut known: Vec<String> = longs
            .chain(places.filter(|name| *name != "name"))
            .map(underscored)
            .collect();
        known.sort();
        format!(
            "the key {key} is not known; the keys are {}",
            known.join(", ")
        )
    })
}

/// What a command says of its line, in the words of the file with those keys.
pub(crate) fn message<'a>(error: &clap::Error, keys: impl Iterator<Item = &'a str>) -> String {
    let keys: Vec<&str> = keys.collect();
    let named = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => as_keys(text, &keys),
        Some(ContextValue::Strings(texts)) => {
            let names: Vec<String> = texts.iter().map(|text| as_keys(text, &keys)).collect();
            names.join(", ")
        }
        _ => String::new(),
    };
    let option = named(ContextKind::InvalidArg);
    let value = match error.get(ContextKind::InvalidValue) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    match error.kind() {
        ErrorKind::MissingRequiredArgument => format!("{option} is missing"),
        ErrorKind::ValueValidation => {
            let why = std::error::Error::source(error).map(ToString::to_string);
            let why = why.map(|why| format!("; {}", in_words(&why)));
            let why = why.unwrap_or_default();
            format!("{option}: invalid value '{value}'{why}")
        }
        ErrorKind::InvalidValue => {
            let known = match error.get(ContextKind::ValidValue) {
                Some(ContextValue::Strings(known)) => known.join(" or "),
                _ => "another value".to_owned(),
            };
            format!("{option}: invalid value '{value}'; use {known}")
        }
        ErrorKind::ArgumentConflict => match named(ContextKind::PriorArg) {
            other if other == option || other.is_empty() => {
                format!("{option} is there twice; leave one out")
            }
            other => format!("{option} and {other} exclude each other; leave one out"),
        },
        _ => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            as_words(first.trim_start_matches("error: "))
        }
    }
}

/// The options that `--batch <N>` or `<--source <CMD>|--sink <CMD>>` name, by their keys.
fn as_keys(text: &str, keys: &[&str]) -> String {
    let names = text.split("--").skip(1).map(|rest| {
        let is_part = |letter: &char| letter.is_ascii_alphanumeric() || *letter == '-';
        let long: String = rest.chars().take_while(is_part).collect();
        let written = keys.iter().find(|key| dashed(key) == long);
        written.map_or_else(|| underscored(&long), |key| (*key).to_owned())
    });
    let names: Vec<String> = names.collect();
    names.join(" or ")
}

/// A text with options such as `--queue QUEUE`, with keys in their place.
pub(crate) fn as_words(text: &str) -> String {
    let (mut words, mut was_option) = (Vec::new(), false);
    for word in text.split(' ') {
        let is_value = word.len() > 1 && word.chars().all(|letter| letter.is_ascii_uppercase());
        if was_option && is_value {
            was_option = false;
            continue;
        }
        let long = word.strip_prefix("--");
        was_option = long.is_some();
        words.push(long.map_or_else(|| word.to_owned(), underscored));
    }
    words.join(" ")
}

pub(crate) fn dashed(key: &str) -> String {
    key.replace('_', "-")
}

fn underscored(long: &str) -> String {
    long.replace('-', "_")
}
