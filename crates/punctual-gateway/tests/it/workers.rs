//! The workers of `examples/` that know nothing but HTTP.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use punctual::time::{Stopwatch, millis, seconds};
use serde_json::Value;

use crate::support::{Under, WORKER, serve_in_real_time};

/// The lease of every worker here, and how long a job runs that says nothing: longer than that.
const LEASE_MS: &str = "4000";
const JOB_SECONDS: &str = "5";
/// Five leases.
const LONG: &str = r#"{"seconds":20}"#;

/// A worker of `examples/` in one of the languages.
#[derive(Debug, Clone, Copy)]
enum Language {
    Python,
    TypeScript,
}

impl Language {
    fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::TypeScript => "typescript",
        }
    }

    /// The interpreter and the example's file.
    ///
    /// # Panics
    /// If something is missing, with what to do about it.
    fn command(self) -> [PathBuf; 2] {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
        match self {
            Self::Python => ["python3".into(), examples.join("python-http/worker.py")],
            Self::TypeScript => {
                let folder = examples.join("typescript-http");
                let built = folder.join("dist/worker.js");
                let changed = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified());
                let source = changed(&folder.join("worker.ts")).expect("the example is there");
                assert!(
                    changed(&built).is_ok_and(|at| at >= source),
                    "this test runs the worker in TypeScript, which is not built as it stands; install Node 18 \
                     or later and npm, and run: npm ci --prefix examples/typescript-http && \
                     npm run build --prefix examples/typescript-http"
                );
                ["node".into(), built]
            }
        }
    }
}

/// A process, and a shell beside it that passes signals on and kills it as soon as no process holds
/// the other end of its input any more.
struct Worker {
    process: Child,
    watcher: ChildStdin,
    lines: Receiver<String>,
    name: &'static str,
}

const WITH_WATCHER: &str = r#"exec 3<&0
( while read -r name; do kill -s "$name" $$; done; kill -s KILL $$ ) <&3 >/dev/null 2>&1 &
exec "$@" </dev/null 3<&-"#;

impl Worker {
    async fn start(language: Language, under: &Under) -> Self {
        let mut process = Command::new("sh")
            .args(["-c", WITH_WATCHER, "worker"])
            .args(language.command())
            .env("PUNCTUAL_URL", format!("http://{}", under.address))
            .env("PUNCTUAL_TOKEN", WORKER)
            .envs([("LEASE_MS", LEASE_MS), ("JOB_SECONDS", JOB_SECONDS)])
            .env("WORKER_NAME", language.name())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the system starts a process");
        let watcher = process.stdin.take().expect("the input is piped");
        let said = BufReader::new(process.stdout.take().expect("the output is piped")).lines();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            said.map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
        let worker = Self {
            process,
            watcher,
            lines,
            name: language.name(),
        };
        worker.says("claims from files").await;
        worker
    }

    /// Awaits a line with these words.
    async fn says(&self, words: &str) {
        self.says_while(words, async || {}).await;
    }

    /// Awaits a line with these words, and does something again and again meanwhile.
    async fn says_while(&self, words: &str, meanwhile: impl AsyncFn()) {
        let mut before = Vec::new();
        let waiting = Stopwatch::start();
        while waiting.elapsed() < seconds(60) {
            match self.lines.recv_timeout(millis(100)) {
                Ok(line) if line.contains(words) => return,
                Ok(line) => before.push(line),
                Err(_) => meanwhile().await,
            }
        }
        panic!("{} never said {words:?}, only {before:#?}", self.name);
    }

    fn signal(&mut self, name: &str) {
        writeln!(self.watcher, "{name}").expect("the watcher listens");
    }

    /// Ends it as `kill -9` does.
    fn kill(mut self) {
        self.process.kill().expect("it runs");
        let _ = self.process.wait();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A short job and one of this payload; their ids.
async fn put_two(under: &Under, payload: &str) -> [String; 2] {
    let job = |payload: &str| {
        let fields = r#""queue":"files","retention":"10m""#;
        format!(r#"{{{fields},"payload":{payload}}}"#)
    };
    let body = format!("[{},{}]", job(r#"{"seconds":0.01}"#), job(payload));
    let receipts = under.send("POST", "/v1/jobs", body).await.json()["receipts"].take();
    let id = |index: usize| receipts[index]["id"].as_str().expect("an id").to_owned();
    [id(0), id(1)]
}

async fn job(under: &Under, id: &str) -> Value {
    under.get(&format!("/v1/jobs/{id}")).await.json()
}

async fn finished_by(under: &Under, id: &str, worker: Language, attempt: u32) -> Value {
    let reported = job(under, id).await;
    assert_eq!(reported["state"], "completed", "{reported}");
    assert_eq!(reported["result"]["by"], worker.name(), "{reported}");
    assert_eq!(reported["attempt"], attempt, "{reported}");
    reported
}

/// The lateness and the run time of both jobs are in the history that the dashboard draws.
async fn what_it_measured_is_reported(under: &Under) {
    let stats = under.get("/v1/stats?queue=files&history=true").await.json();
    let history = stats["queues"][0]["history"].as_array().expect("a history");
    let most = |what: &str| {
        history
            .iter()
            .filter_map(|one| one[what]["p99"].as_u64())
            .max()
    };
    let (late, ran) = (most("lateness_us"), most("run_time_us"));
    let second = 1_000_000;
    // Both were due when they were sent; the worker began after that.
    assert!(
        late.is_some_and(|us| 0 < us && us < 180 * second),
        "{stats}"
    );
    assert!(
        ran.is_some_and(|us| 19 * second < us && us < 180 * second),
        "{stats}"
    );
}

/// One worker is killed in the middle of a lease that it has settled in part; the other finishes
/// it.
async fn a_kill_hands_over(killed: Language, other: Language) {
    let under = serve_in_real_time().await;
    let [short, long] = put_two(&under, LONG).await;
    let first = Worker::start(killed, &under).await;
    first
        .says(&format!("settled {short} completed: settled"))
        .await;
    assert_eq!(job(&under, &long).await["state"], "active");
    first.kill();
    let second = Worker::start(other, &under).await;
    second.says(&format!("started {long} attempt 2")).await;
    // Each of these calls would return the job if its lease were not extended.
    let settled = format!("settled {long} completed: settled");
    let ask = async || drop(job(&under, &long).await);
    second.says_while(&settled, ask).await;
    finished_by(&under, &short, killed, 1).await;
    assert_eq!(finished_by(&under, &long, other, 2).await["crashes"], 1);
    what_it_measured_is_reported(&under).await;
}

/// One worker is stopped for longer than its lease; it says so, lets the job be, and goes on.
async fn a_lost_lease_is_survived(stopped: Language, other: Language) {
    let under = serve_in_real_time().await;
    let [short, long] = put_two(&under, "{}").await;
    let mut first = Worker::start(stopped, &under).await;
    first
        .says(&format!("settled {short} completed: settled"))
        .await;
    first.signal("STOP");
    let second = Worker::start(other, &under).await;
    second.says(&format!("started {long} attempt 2")).await;
    first.signal("CONT");
    first.says("lease lost").await;
    second
        .says(&format!("settled {long} completed: settled"))
        .await;
    finished_by(&under, &long, other, 2).await;
    second.kill();
    let [_, next] = put_two(&under, "{}").await;
    first
        .says(&format!("settled {next} completed: settled"))
        .await;
    finished_by(&under, &next, stopped, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_python_worker_leaves_its_job_to_typescript() {
    a_kill_hands_over(Language::Python, Language::TypeScript).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_typescript_worker_leaves_its_job_to_python() {
    a_kill_hands_over(Language::TypeScript, Language::Python).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_python_worker_survives_a_lost_lease_over_http() {
    a_lost_lease_is_survived(Language::Python, Language::TypeScript).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_typescript_worker_survives_a_lost_lease_over_http() {
    a_lost_lease_is_survived(Language::TypeScript, Language::Python).await;
}
