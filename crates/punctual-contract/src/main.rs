//! Writes everything that is generated from the tables; with `--check` only says what differs.

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs, io};

use punctual_contract::{COMMAND, output};

fn main() -> ExitCode {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let checks = env::args().any(|argument| argument == "--check");
    match run(root, checks) {
        Ok(done) => done,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(root: &Path, checks: bool) -> io::Result<ExitCode> {
    let stale = output::stale(root)?;
    for (path, text) in &stale {
        if checks {
            eprintln!("{path} differs from the tables; run `{COMMAND}`");
        } else {
            fs::write(root.join(path), text)?;
            println!("{path}");
        }
    }
    Ok(match checks && !stale.is_empty() {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}
