//! `cargo run --release -p patterns`: every pattern by hand and on Punctual, as a table.

use clap::{Parser, ValueEnum};
use patterns::{Figures, Pattern};
use serde_json::{Value, json};

/// Queues as people build them by hand, and the same work on Punctual.
#[derive(Debug, Parser)]
struct Args {
    /// A table for a person, or one JSON document per pattern.
    #[arg(long, short, default_value = "table")]
    output: Format,

    /// Messages of each pattern.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(100..=100_000))]
    messages: u32,

    /// Only patterns that have one of these words in their name.
    words: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
}

#[tokio::main]
async fn main() {
    let args = Args::parse();
    let is_wanted = |pattern: &Pattern| {
        args.words.is_empty() || args.words.iter().any(|word| pattern.name.contains(&**word))
    };
    let wanted: Vec<Pattern> = Pattern::all(args.messages)
        .into_iter()
        .filter(is_wanted)
        .collect();
    if wanted.is_empty() {
        eprintln!("no pattern has such a name; run without words to see all");
        std::process::exit(2);
    }
    if args.output == Format::Table {
        println!("{:32} {:>24} {:>24}", "", "by hand", "Punctual");
        println!("{:32} {} {}", "pattern", HEAD, HEAD);
    }
    for pattern in wanted {
        if pattern.needs_broker() && patterns::broker().is_none() {
            let how = "scripts/with-rabbitmq cargo run --release -p patterns -- RabbitMQ";
            eprintln!("{:32} left out, as it needs a broker: {how}", pattern.name);
            continue;
        }
        let outcome = pattern.run().await;
        match args.output {
            Format::Json => {
                let mut line = figures(outcome.by_hand);
                line["pattern"] = json!(pattern.name);
                line["breaks"] = json!(pattern.breaks);
                line["punctual"] = figures(outcome.ours);
                println!("{line}");
            }
            Format::Table => {
                println!(
                    "{:32} {} {}",
                    pattern.name,
                    row(outcome.by_hand),
                    row(outcome.ours)
                );
            }
        }
    }
    if args.output == Format::Table {
        println!("lost: never done. twice: done more than once. late: 99 of 100 started by then.");
    }
}

const HEAD: &str = "  lost  twice  late p99";

fn row(of: Figures) -> String {
    format!("{:>6} {:>6} {:>7} ms", of.lost, of.doubled, of.late_p99_ms)
}

fn figures(of: Figures) -> Value {
    json!({"lost": of.lost, "doubled": of.doubled, "late_p99_ms": of.late_p99_ms})
}
