//! What a real server refuses while something is wrong with it: reported with its remedy, nothing
//! lost, and well again by itself once the cause is gone.

use punctual::time::{Stopwatch, millis, seconds, within};
use punctual::{Context, Error, ErrorKind, JobId, JobRecord, NewJob, Outcome, Result, Worker};
use punctual_redis::RedisEngine;
use punctual_redis::testing::TestServer;
use tokio::sync::mpsc;

use crate::client::{Claimed, claim, connect, drain, enqueue, enqueue_surely, options};

/// A server with a job that waits and one that runs, callers with a short time limit, and a
/// worker that sleeps.
struct Scene {
    server: TestServer,
    engine: RedisEngine,
    waiting: JobId,
    running: Claimed,
    worked: mpsc::UnboundedReceiver<JobId>,
    worker: tokio::task::JoinHandle<Result<()>>,
}

/// The queue of the worker that sleeps.
const MAIL: &str = "mail";
/// How long the calls try that are to fail.
const SHORT: std::time::Duration = millis(500);

impl Scene {
    async fn on(server: TestServer) -> Self {
        let engine = RedisEngine::connect(options(&server.address()).deadline(SHORT)).await;
        let engine = engine.expect("the server is there");
        enqueue(&engine).await.expect("enqueue");
        let running = claim(&engine, 1).await.expect("claim").remove(0);
        let waiting = enqueue(&engine).await.expect("enqueue");
        let (done, worked) = mpsc::unbounded_channel();
        let worker = Worker::new(connect(&server.address()).await)
            .queues([MAIL])
            .handle_any(move |job: JobRecord, _: Context| {
                let _ = done.send(job.id);
                async { Outcome::Completed }
            });
        let mut scene = Self {
            server,
            engine,
            waiting,
            running,
            worked,
            worker: tokio::spawn(worker.run_until(std::future::pending::<()>())),
        };
        scene.the_worker_works().await;
        scene
    }

    async fn the_worker_works(&mut self) {
        let mail = NewJob::new(MAIL, "{}");
        enqueue_surely(&self.engine, &mail).await;
        let watch = Stopwatch::start();
        let worked = within(seconds(30), self.worked.recv()).await;
        assert_eq!(worked.expect("the worker is alive"), Some(mail.id));
        assert!(watch.elapsed() < seconds(5), "{:?}", watch.elapsed());
    }

    /// Every verb that changes something is refused alike, and changes nothing.
    async fn refuses(&self, kind: ErrorKind, words: &[&str]) {
        let reported: [Error; 3] = [
            answered(|| async { enqueue(&self.engine).await.map(drop) }).await,
            answered(|| async { claim(&self.engine, 1).await.map(drop) }).await,
            answered(|| async { self.running.complete(&self.engine).await.map(drop) }).await,
        ];
        for error in reported {
            assert_eq!(error.kind(), kind, "{error}");
            for word in ["redis"].iter().chain(words) {
                assert!(error.message().contains(word), "no {word:?} in: {error}");
            }
        }
    }

    /// The cause is gone: nothing is lost, nothing was done twice, and no process had to be started
    /// again.
    async fn goes_on(mut self, met: &str) {
        let errors = self.server.cli(&["INFO", "errorstats"]);
        assert!(errors.contains(&format!("errorstat_{met}:")), "{errors}");
        self.the_worker_works().await;
        let settled = self.running.complete(&self.engine).await;
        assert!(settled.expect("settle"), "its lease is still valid");
        assert_eq!(drain(&self.engine).await, [self.waiting]);
        self.worker.abort();
    }
}

/// What is refused; a machine that is slow may not have received it by the deadline.
async fn answered<F: Future<Output = Result<()>>>(call: impl Fn() -> F) -> Error {
    loop {
        let error = call().await.expect_err("it is refused");
        if !error.message().contains("no answer in time") {
            return error;
        }
    }
}

#[tokio::test]
async fn a_server_that_cannot_save_says_so_and_goes_on_once_it_can() {
    // Only of a server that makes snapshots are they expected.
    let server = TestServer::with(&["--save", "3600 100000", "--appendonly", "no"]);
    let scene = Scene::on(server).await;
    // A snapshot cannot take the place of a directory that is not empty, whatever user the server
    // runs as.
    let in_its_place = scene.server.directory().join("dump.rdb");
    std::fs::create_dir_all(in_its_place.join("full")).expect("it is ours");
    save(&scene.server, "err").await;
    let words = ["cannot save", "disk", "log"];
    scene.refuses(ErrorKind::EngineFull, &words).await;
    std::fs::remove_dir_all(in_its_place).expect("it is ours");
    save(&scene.server, "ok").await;
    scene.goes_on("MISCONF").await;
}

/// Has a server save, and waits for how that ends.
async fn save(server: &TestServer, ends: &str) {
    server.cli(&["BGSAVE"]);
    let said = || server.cli(&["INFO", "persistence"]);
    let ends = format!("rdb_last_bgsave_status:{ends}");
    while said().contains("rdb_bgsave_in_progress:1") || !said().contains(&ends) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_server_short_of_replicas_says_so_and_goes_on_once_they_are_back() {
    let scene = Scene::on(TestServer::start()).await;
    let asks = |number| {
        let set = ["CONFIG", "SET", "min-replicas-to-write", number];
        assert_eq!(scene.server.cli(&set), "OK");
    };
    asks("1");
    let words = ["replicas", "min-replicas-to-write", "start"];
    scene
        .refuses(ErrorKind::DurabilityUnavailable, &words)
        .await;
    asks("0");
    scene.goes_on("NOREPLICAS").await;
}

/// An operator makes another server the master, and thinks better of it.
#[tokio::test]
async fn a_demoted_master_says_so_and_serves_once_promoted_again() {
    let scene = Scene::on(TestServer::start()).await;
    let other = TestServer::start();
    let follows = |server: &TestServer, of: &TestServer| {
        let port = of.port().to_string();
        assert_eq!(server.cli(&["REPLICAOF", "127.0.0.1", &port]), "OK");
    };
    let is_linked =
        |server: &TestServer| server.cli(&["INFO", "replication"]).contains("_status:up");
    follows(&other, &scene.server);
    while !is_linked(&other) {
        tokio::task::yield_now().await;
    }
    other.cli(&["REPLICAOF", "NO", "ONE"]);
    follows(&scene.server, &other);
    while !is_linked(&scene.server) {
        tokio::task::yield_now().await;
    }
    let words = ["READONLY", "replica", "its master"];
    scene.refuses(ErrorKind::EngineUnavailable, &words).await;
    assert_eq!(scene.server.cli(&["REPLICAOF", "NO", "ONE"]), "OK");
    scene.goes_on("READONLY").await;
}

#[tokio::test]
async fn a_server_that_reads_its_data_says_so_and_serves_once_it_has_them() {
    let scene = Scene::on(TestServer::with(&["--save", "3600 100000"])).await;
    scene.server.cli(&["DEBUG", "POPULATE", "60000"]);
    let sets = |name, value| assert_eq!(scene.server.cli(&["CONFIG", "SET", name, value]), "OK");
    // It pauses in its file often enough to refuse, and reads for a minute if it is let.
    sets("loading-process-events-interval-bytes", "1024");
    sets("key-load-delay", "1000");
    let mut reads = beside(&scene.server, &["DEBUG", "RELOAD"]);
    while !scene
        .server
        .cli(&["INFO", "persistence"])
        .contains("loading:1")
    {
        tokio::task::yield_now().await;
    }
    let words = ["LOADING", "reading its data", "log"];
    scene.refuses(ErrorKind::EngineUnavailable, &words).await;
    sets("key-load-delay", "0");
    assert!(reads.wait().expect("redis-cli runs").success());
    scene.goes_on("LOADING").await;
}

#[tokio::test]
async fn a_server_in_an_endless_script_says_so_and_serves_once_it_ends() {
    let scene = Scene::on(TestServer::with(&[
        "--save",
        "",
        "--busy-reply-threshold",
        "50",
    ]))
    .await;
    let mut script = beside(&scene.server, &["EVAL", "while true do end", "0"]);
    while !scene.server.cli(&["PING"]).contains("BUSY") {
        tokio::task::yield_now().await;
    }
    let words = ["BUSY", "script", "SCRIPT KILL"];
    scene.refuses(ErrorKind::EngineUnavailable, &words).await;
    assert_eq!(scene.server.cli(&["SCRIPT", "KILL"]), "OK");
    script.wait().expect("redis-cli runs");
    scene.goes_on("BUSY").await;
}

/// A command that a server does for long, from another connection.
fn beside(server: &TestServer, arguments: &[&str]) -> std::process::Child {
    let mut command = std::process::Command::new("redis-cli");
    let command = command.args(["-p", &server.port().to_string()]);
    let command = command.args(arguments).stdout(std::process::Stdio::null());
    command.spawn().expect("redis-cli runs")
}
