//! `punctual-torture`: runs engines under faults and compares their histories with the promises.
//!
//! Producers and workers are separate processes. Each writes down what it did before it acts on an
//! answer. Meanwhile the nemesis causes the faults of a seeded plan. Then the round drains all
//! jobs, and the checker compares the histories with what was promised.
//!
//! # Where to start
//! - The commands: `args.rs`. A run and its rounds: `run.rs`. What is tortured: `cell.rs`.
//! - Faults: `plan.rs` derives them from a seed, `nemesis.rs` causes them.
//! - Producers and workers: `roles.rs`. What they write down: `recorder.rs` and `call_log.rs`.
//! - The verdicts: `check.rs`. How to run it: `docs/reliability.md`.

mod address;
mod again;
mod args;
mod call_log;
mod cell;
mod check;
mod content;
mod event;
mod flows;
mod foreign;
mod injected;
mod limits;
mod nemesis;
mod plan;
mod process;
mod recorder;
mod relayed;
mod relays;
mod report;
mod roles;
mod run;
mod schedules;
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

use crate::run::Found;

fn main() -> ExitCode {
    match args::Command::parse().run() {
        Ok(Found::Nothing) => ExitCode::SUCCESS,
        Ok(Found::Broken) => ExitCode::from(1),
        Ok(Found::Late) => ExitCode::from(3),
        Err(error) => {
            eprintln!("punctual-torture: {error}");
            ExitCode::from(2)
        }
    }
}
