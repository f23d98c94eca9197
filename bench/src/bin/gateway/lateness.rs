//! The lateness that the gateway adds.

use std::process::Command;

use serde_json::{Value, json};

use crate::server::{Server, TOKEN};
use crate::{Arguments, announce, figure, median};

pub(crate) fn measure(arguments: &Arguments, rate: u64, seconds: u64, runs: usize) {
    let run = |engine: &str| -> Value {
        let [rate, seconds] = [rate, seconds].map(|number| number.to_string());
        let bench = Command::new(&arguments.punctual)
            .args(["bench", "lateness", "-o", "json", "--rate", &rate])
            .args(["--seconds", &seconds, "--engine", engine])
            .env("PUNCTUAL_TOKEN", TOKEN)
            .output()
            .expect("it starts");
        serde_json::from_slice(&bench.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&bench.stderr)))
    };
    let mut added = Vec::new();
    for _ in 0..runs {
        let place = tempfile::tempdir_in(&arguments.directory).expect("a directory");
        let own = run(&format!(
            "file:{}/own?durability=os",
            place.path().display()
        ));
        let served = format!("file:{}/served?durability=os", place.path().display());
        // The bench has a namespace of its own, for which no token is made.
        let server = Server::start_with(&arguments.punctual, &served, &["--no-auth"]);
        let through = run(&format!("http://{}", server.address));
        announce(&json!({"in_process": own, "through_gateway": through}));
        let p99 = |of: &Value| of["lateness_ms"]["p99"].as_f64().expect("a number");
        added.push(p99(&through) - p99(&own));
    }
    figure(
        "ms that the gateway adds to p99 lateness",
        median(added),
        "under 1",
    );
}
