//! `punctual`: durable delayed jobs from a shell.
//!
//! # Where to start
//! - A command: its file in `commands`. The list of commands and shared options: `args.rs`.
//! - From an address to an engine: `connect.rs`.
//! - What a command prints: `output.rs`. How it fails, and its exit code: `failure.rs`.

mod args;
mod commands;
mod connect;
mod failure;
mod help;
mod lines;
mod log;
mod numbers;
#[cfg(feature = "otel")]
mod otel;
mod output;
mod progress;
mod pushing;
mod signals;

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches};

use crate::args::Cli;
use crate::commands::work;
use crate::failure::Failure;
use crate::output::Format;

/// Jobs are made on one thread and freed on another, for which the system's allocator pays dearly.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|arg| arg == work::GUARD)
    {
        return work::guard();
    }
    let mut args: Vec<_> = std::env::args_os().collect();
    if args.len() < 2 {
        // Alone, the command is a server with a page to look at.
        args.push("serve".into());
    }
    let cli = match read(args.clone()) {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let format = cli.global.output().format;
    let _log = match log::start(cli.command.usual_log()) {
        Ok(log) => log,
        Err(failure) => return report(&failure, format),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(cli.command.run(&cli.global)),
        Err(error) => Err(Failure::new(
            failure::Exit::Failed,
            "io",
            format!("cannot start threads: {error}"),
        )),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&failure.with_arguments(&args), format),
    }
}

fn read(args: Vec<OsString>) -> Result<Cli, clap::Error> {
    let mut command = help::fitted(Cli::command());
    let matches = command.try_get_matches_from_mut(args)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

fn report(failure: &Failure, format: Format) -> ExitCode {
    if let Some(text) = failure.text(format) {
        let is_terminal = format == Format::Table && std::io::stderr().is_terminal();
        let text = output::fitted_lines(&text, 2, is_terminal);
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    }
    ExitCode::from(failure.exit_code())
}

/// Help and versions go out as they are; mistakes in the form that was asked for.
fn usage(error: &clap::Error) -> ExitCode {
    let asked_for = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    if asked_for {
        // A reader that closed the pipe is no failure.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = negative(error).unwrap_or_else(|| numbers::in_words(&error.to_string()));
    if !wants_json() {
        let text = output::fitted_lines(&text, 2, output::fits(&std::io::stderr()));
        let _ = writeln!(std::io::stderr().lock(), "{text}");
        return ExitCode::from(failure::Exit::Usage as u8);
    }
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let message = lines
        .next()
        .unwrap_or("wrong usage")
        .trim_start_matches("error: ");
    let tip = lines.find_map(|line| line.trim().strip_prefix("tip: "));
    let failure = Failure::usage(message).hint(tip.unwrap_or("see --help"));
    let _ = writeln!(
        std::io::stderr().lock(),
        "{}",
        failure.text(Format::Json).unwrap_or_default()
    );
    ExitCode::from(failure.exit_code())
}

/// What is wrong with a value such as -5, which reads like an option.
fn negative(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let number = word.strip_prefix('-')?;
    let is_one = number.starts_with(|first: char| first.is_ascii_digit());
    is_one.then(|| {
        format!("error: {word} is negative; a span or a number is 0 or more\n\nFor more information, try '--help'.")
    })
}

/// Whether JSON was asked for by a command line that could not be read.
fn wants_json() -> bool {
    let args: Vec<String> = std::env::args_os()
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect();
    let flag = args
        .windows(2)
        .any(|pair| matches!(pair[0].as_str(), "-o" | "--output") && pair[1] == "json");
    let joined = args
        .iter()
        .any(|arg| matches!(arg.as_str(), "--output=json" | "-ojson" | "-o=json"));
    flag || joined || std::env::var("PUNCTUAL_OUTPUT").is_ok_and(|value| value == "json")
}
