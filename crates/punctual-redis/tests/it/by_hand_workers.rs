//! Workers in other languages that are killed and stopped.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use punctual::Engine;
use punctual::engine::{Got, Target};
use punctual::time::{Stopwatch, millis, seconds};
use punctual_redis::testing::TestServer;

use crate::client::here;
use crate::hand::{Hand, text};

/// The lease of every worker here, and how long a job runs that says nothing: more than two leases.
const LEASE_MS: &str = "2000";
const JOB_SECONDS: &str = "5";
/// Ten leases.
const LONG: &str = r#"{"seconds":20}"#;

/// A worker of `examples/` in one of the languages.
#[derive(Debug, Clone, Copy)]
enum Language {
    Python,
    Node,
}

impl Language {
    fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Node => "node",
        }
    }

    /// The interpreter and the example's file.
    ///
    /// # Panics
    /// If something is missing, with how to install it.
    fn command(self) -> [PathBuf; 2] {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
        match self {
            Self::Python => [python(), examples.join("python-redis/worker.py")],
            Self::Node => {
                let folder = examples.join("node-redis");
                assert!(
                    runs(Command::new("node").arg("--version")),
                    "this test runs a worker in Node and found none; install Node 18 or later and npm \
                     (Debian, Ubuntu: sudo apt-get install nodejs npm)"
                );
                assert!(
                    folder.join("node_modules/redis").exists(),
                    "this test runs a worker in Node that needs the package redis; \
                     run: npm ci --prefix examples/node-redis"
                );
                ["node".into(), folder.join("worker.mjs")]
            }
        }
    }
}

/// A python3 that has redis-py: the one that `scripts/test` makes, or the system's.
fn python() -> PathBuf {
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../python-redis/bin/python");
    let has_redis = |python: &PathBuf| runs(Command::new(python).args(["-c", "import redis"]));
    [made, "python3".into()]
        .into_iter()
        .find(has_redis)
        .expect(
            "this test runs a worker in Python and found no python3 with redis-py; install both \
             (Debian, Ubuntu: sudo apt-get install python3 python3-redis; elsewhere: pip install redis)",
        )
}

fn runs(command: &mut Command) -> bool {
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
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
    fn start(language: Language, hand: &Hand) -> Self {
        Self::with_lease(language, hand, LEASE_MS)
    }

    fn with_lease(language: Language, hand: &Hand, lease_ms: &str) -> Self {
        let mut process = Command::new("sh")
            .args(["-c", WITH_WATCHER, "worker"])
            .args(language.command())
            .env("REDIS_URL", hand.server.address())
            .envs([("LEASE_MS", lease_ms), ("JOB_SECONDS", JOB_SECONDS)])
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
        worker.says("claims from files");
        worker
    }

    /// Awaits a line with these words.
    fn says(&self, words: &str) {
        self.says_while(words, || {});
    }

    /// Awaits a line with these words, and does something again and again meanwhile.
    fn says_while(&self, words: &str, meanwhile: impl Fn()) {
        let mut before = Vec::new();
        let waiting = Stopwatch::start();
        while waiting.elapsed() < seconds(60) {
            match self.lines.recv_timeout(millis(100)) {
                Ok(line) if line.contains(words) => return,
                Ok(line) => before.push(line),
                Err(_) => meanwhile(),
            }
        }
        panic!("{} never said {words:?}, only {before:#?}", self.name);
    }

    fn signal(&mut self, name: &str) {
        writeln!(self.watcher, "{name}").expect("the watcher listens");
    }

    /// Awaits its end.
    fn ends(&mut self) {
        let mut last = String::new();
        let waiting = Stopwatch::start();
        loop {
            match self.lines.recv_timeout(millis(100)) {
                Ok(line) => last = line,
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let waited = waiting.elapsed();
            assert!(waited < seconds(60), "{} runs on: {last}", self.name);
        }
        let _ = self.process.wait();
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
fn push_two(hand: &Hand, payload: &str) -> [String; 2] {
    let push = |payload: &str| {
        let pushed = hand.call("push", &["files", payload, "RETENTION", "600000"]);
        text(&pushed, "id").to_owned()
    };
    [push(r#"{"seconds":0.01}"#), push(payload)]
}

fn finished_by(hand: &Hand, id: &str, worker: Language, attempt: u32) {
    let reported = hand.call("get", &[id]);
    assert_eq!(reported["job"]["state"], "completed", "{reported}");
    assert_eq!(reported["job"]["result"]["by"], worker.name(), "{reported}");
    assert_eq!(reported["job"]["attempt"], attempt, "{reported}");
}

/// One worker is killed in the middle of a lease that it has settled in part; the other finishes
/// it.
async fn a_kill_hands_over(killed: Language, other: Language) {
    let hand = Hand::new().await;
    let [short, long] = push_two(&hand, LONG);
    let first = Worker::start(killed, &hand);
    first.says(&format!("settled {short} completed: settled"));
    assert_eq!(hand.call("get", &[&long])["job"]["state"], "active");
    let second = Worker::start(other, &hand);
    first.kill();
    second.says(&format!("started {long} attempt 2"));
    // Each of these calls would return the job if its lease were not extended.
    second.says_while(&format!("settled {long} completed: settled"), || {
        hand.call("explain", &[&long]);
    });
    finished_by(&hand, &short, killed, 1);
    finished_by(&hand, &long, other, 2);
    assert_eq!(hand.call("get", &[&long])["job"]["crashes"], 1);
    let target = Target::Id(long.parse().expect("an id"));
    let got = hand.engine.get(&here(), vec![target], false).await;
    let Some(Got::Job(job, _)) = got.expect("get").remove(0) else {
        panic!("it is retained");
    };
    let (lease_end, back) = (job.attempts[0].ended_at, job.started_at);
    let after = back.expect("it ran again") - lease_end;
    assert!(after < seconds(2), "back {after:?} after its lease");
}

/// One worker is stopped for three leases, one until the other takes its job and two that this
/// takes; it says so, lets the job be, and goes on.
async fn a_lost_lease_is_survived(stopped: Language, other: Language) {
    let hand = Hand::new().await;
    let [short, long] = push_two(&hand, "{}");
    let mut first = Worker::start(stopped, &hand);
    first.says(&format!("settled {short} completed: settled"));
    first.signal("STOP");
    let second = Worker::start(other, &hand);
    second.says(&format!("started {long} attempt 2"));
    second.says(&format!("settled {long} completed: settled"));
    first.signal("CONT");
    first.says("lease lost");
    finished_by(&hand, &long, other, 2);
    second.kill();
    let [_, next] = push_two(&hand, "{}");
    first.says(&format!("settled {next} completed: settled"));
    finished_by(&hand, &next, stopped, 1);
}

#[tokio::test]
async fn a_killed_python_worker_leaves_its_job_to_node() {
    a_kill_hands_over(Language::Python, Language::Node).await;
}

#[tokio::test]
async fn a_killed_node_worker_leaves_its_job_to_python() {
    a_kill_hands_over(Language::Node, Language::Python).await;
}

#[tokio::test]
async fn a_python_worker_survives_a_lost_lease() {
    a_lost_lease_is_survived(Language::Python, Language::Node).await;
}

#[tokio::test]
async fn a_node_worker_survives_a_lost_lease() {
    a_lost_lease_is_survived(Language::Node, Language::Python).await;
}

/// The server takes no writes when a job has ended: what it came to is settled later.
async fn a_refused_settle_is_settled_later(language: Language) {
    let hand = Hand::new().await;
    let [short, long] = push_two(&hand, r#"{"seconds":1}"#);
    let worker = Worker::with_lease(language, &hand, "30000");
    worker.says(&format!("settled {short} completed: settled"));
    hand.server.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    worker.says("settle failed, trying again: ");
    hand.server.cli(&["REPLICAOF", "NO", "ONE"]);
    worker.says(&format!("settled {long} completed: "));
    finished_by(&hand, &long, language, 1);
}

#[tokio::test]
async fn a_python_worker_survives_a_refused_settle() {
    a_refused_settle_is_settled_later(Language::Python).await;
}

#[tokio::test]
async fn a_node_worker_survives_a_refused_settle() {
    a_refused_settle_is_settled_later(Language::Node).await;
}

/// The server is away when a worker that holds a lease is asked to end.
async fn an_outage_does_not_keep_it(language: Language, outage: fn(&mut TestServer)) {
    let mut hand = Hand::new().await;
    let [short, _] = push_two(&hand, r#"{"seconds":1}"#);
    let mut worker = Worker::start(language, &hand);
    worker.says(&format!("settled {short} completed: settled"));
    outage(&mut hand.server);
    worker.says("settle failed, trying again: ");
    worker.signal("TERM");
    worker.ends();
    if hand.server.is_running() {
        hand.server.go_on();
    }
}

#[tokio::test]
async fn a_python_worker_ends_while_the_server_is_down() {
    an_outage_does_not_keep_it(Language::Python, TestServer::kill).await;
}

#[tokio::test]
async fn a_python_worker_ends_while_the_server_hangs() {
    an_outage_does_not_keep_it(Language::Python, TestServer::stop).await;
}

#[tokio::test]
async fn a_node_worker_ends_while_the_server_is_down() {
    an_outage_does_not_keep_it(Language::Node, TestServer::kill).await;
}

#[tokio::test]
async fn a_node_worker_ends_while_the_server_hangs() {
    an_outage_does_not_keep_it(Language::Node, TestServer::stop).await;
}

/// A job whose lease ended twice without a settlement.
fn push_suspect(hand: &Hand) -> String {
    let id = text(&hand.call("push", &["files", r#"{"seconds":0.01}"#]), "id").to_owned();
    while hand.call("explain", &[&id])["job"]["crashes"] != 2 {
        // A claim without an id of its own is given no suspect.
        hand.call("claim", &["files", "LEASE_MS", "1"]);
    }
    id
}

async fn a_suspect_is_run(language: Language) {
    let hand = Hand::new().await;
    let id = push_suspect(&hand);
    let worker = Worker::start(language, &hand);
    worker.says(&format!("started {id} attempt 3"));
    worker.says(&format!("settled {id} completed: settled"));
}

#[tokio::test]
async fn a_python_worker_runs_a_job_that_crashed_twice() {
    a_suspect_is_run(Language::Python).await;
}

#[tokio::test]
async fn a_node_worker_runs_a_job_that_crashed_twice() {
    a_suspect_is_run(Language::Node).await;
}

/// What stands in docs/wire-protocol.md is enough for a client of the packed forms.
#[tokio::test]
async fn the_packed_forms_take_a_few_lines_of_python() {
    let hand = Hand::new().await;
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let ran = Command::new(python())
        .arg(examples.join("python-redis/packed.py"))
        .env("REDIS_URL", hand.server.address())
        .output()
        .expect("the system starts a process");
    assert!(ran.status.success(), "{ran:?}");
    let said = String::from_utf8_lossy(&ran.stdout);
    let ids: Vec<&str> = said.split_whitespace().skip(1).collect();
    // Three at once, one later, two with a key, one that the wakeup announced, a suspect.
    assert_eq!(ids.len(), 8, "{said}");
    for id in ids {
        assert_eq!(hand.call("get", &[id])["job"]["state"], "completed");
    }
}
