//! `punctual-torture`: faults, histories, verdicts.
//!
//! Producers and workers are processes of their own, which write down what they do before they act
//! on an answer. A seeded plan of faults is carried out meanwhile; then all is left to come to
//! rest, and the histories are held against what was promised.

mod address;
mod again;
mod args;
mod cell;
mod check;
mod content;
mod event;
mod flows;
mod foreign;
mod history;
mod injected;
mod nemesis;
mod plan;
mod process;
mod recorder;
mod report;
mod roles;
mod run;
mod scripted_outcome;
mod setting;
mod sink;
mod snapshot;
mod stamp;
mod stash;
mod totals;
mod verify;
mod waits;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match args::Command::parse().run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("punctual-torture: {error}");
            ExitCode::from(2)
        }
    }
}
