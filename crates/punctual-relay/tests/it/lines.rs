//! Processes that speak in lines.

use std::sync::Arc;

use punctual::time::{Clock, Stopwatch, SystemClock, millis};
use punctual::{Engine, JobId, JobState, MemoryEngine, Namespace, NewJob, Queue, Worker};
use punctual_relay::Relay;
use punctual_relay::lines::{LineSink, LineSource, ReadJob};

use crate::support::*;

/// A reader for tests: the job is a text, its payload.
fn reader() -> ReadJob {
    Arc::new(|json, id| {
        let text: String = serde_json::from_str(json).map_err(|error| error.to_string())?;
        Ok(NewJob::with_id(id, "mail", text))
    })
}

fn source(command: &str) -> LineSource {
    LineSource::new(command, "test", reader())
}

#[tokio::test]
async fn each_line_becomes_a_job_and_is_answered_after_its_receipt() {
    let directory = tempfile::tempdir().expect("a directory");
    let answers = directory.path().join("answers");
    // The second is no text: refused, and said so.
    let command = format!(
        r#"sh -c 'printf "%s\n%s\n" "{{\"name\":\"1\",\"job\":\"a\"}}" "{{\"name\":\"2\",\"job\":7}}"; head -n 2 > {}'"#,
        answers.display()
    );
    let engine = Arc::new(MemoryEngine::new());
    let numbers = drained(&engine, source(&command)).await;
    assert_eq!((numbers.enqueued, numbers.refused), (1, 1));
    let answers = std::fs::read_to_string(answers).expect("it was written");
    let answers: Vec<serde_json::Value> = answers
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(answers[0]["name"], "1");
    assert!(answers[0]["stored"].is_string(), "{answers:?}");
    assert!(
        answers[1]["refused"]
            .as_str()
            .is_some_and(|why| why.contains("string")),
        "{answers:?}"
    );
}

#[tokio::test]
async fn the_same_name_again_is_the_same_job() {
    let engine = Arc::new(MemoryEngine::new());
    for _ in 0..2 {
        let command = r#"sh -c 'echo "{\"name\":\"1\",\"job\":\"a\"}"; head -n 1 >/dev/null'"#;
        drained(&engine, source(command)).await;
    }
    assert_eq!(texts(&jobs(&engine).await), ["a"]);
}

/// Its answers fill the pipe to it before it reads any.
#[tokio::test]
async fn a_source_may_write_all_its_lines_before_it_reads_an_answer() {
    let line = r#""{\"name\":\"" i "\",\"job\":\"a\"}""#;
    let command = format!(
        "awk 'BEGIN {{ for (i = 1; i <= 9000; i++) print {line} }}'; head -n 9000 >/dev/null"
    );
    let engine = Arc::new(MemoryEngine::new());
    let numbers = drained(&engine, source(&command)).await;
    assert_eq!((numbers.enqueued, numbers.refused), (9_000, 0));
}

/// In one batch the answer of the one would stand for the other.
#[tokio::test]
async fn a_name_that_comes_twice_at_once_has_two_answers() {
    let directory = tempfile::tempdir().expect("a directory");
    let answers = directory.path().join("answers");
    let line = |job: &str| format!(r#"{{"name":"1","job":"{job}"}}"#);
    let lines = [line("a"), line("b"), line("a")].join("\n");
    let command = format!("echo '{lines}'; head -n 3 > {}", answers.display());
    let engine = Arc::new(MemoryEngine::new());
    let numbers = drained(&engine, source(&command)).await;
    assert_eq!(
        (numbers.enqueued, numbers.refused, numbers.duplicates),
        (1, 1, 1)
    );
    let answers = std::fs::read_to_string(answers).expect("it was written");
    let answers: Vec<serde_json::Value> = answers
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let stored: Vec<bool> = answers
        .iter()
        .map(|one| one["stored"].is_string())
        .collect();
    assert_eq!(stored, [true, false, true], "{answers:?}");
}

#[tokio::test]
async fn a_source_that_fails_starts_again() {
    for command in ["exit 3", "echo debug output; sleep 60"] {
        let engine = Arc::new(MemoryEngine::new());
        let relay = Relay::new(&engine, "test").expect("a name");
        let health = relay.health();
        let command = format!("sh -c '{command}'");
        let running = tokio::spawn(relay.run_until(source(&command), std::future::pending()));
        while health.numbers().restarts < 2 {
            punctual::time::pause(punctual::time::millis(1)).await;
        }
        running.abort();
        assert!(health.numbers().last_error.is_some());
    }
}

/// A sink that answers every job, fails those of payload `b`, and refuses `c` for good.
const SINK: &str = r#"sh -c 'while read -r line; do
    id=$(printf %s "$line" | cut -d\" -f4)
    case $line in
        *\"b\"*) printf "{\"id\":\"%s\",\"error\":\"busy\"}\n" "$id" ;;
        *\"c\"*) printf "{\"id\":\"%s\",\"error\":\"no route\",\"permanent\":true}\n" "$id" ;;
        *) printf "{\"id\":\"%s\",\"done\":true}\n" "$id" ;;
    esac
done'"#;

#[tokio::test]
async fn a_sink_completes_fails_and_refuses_jobs() {
    let engine = Arc::new(MemoryEngine::new());
    let jobs: Vec<NewJob> = ["a", "b", "c"].map(|text| NewJob::new("out", text)).into();
    let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
    engine
        .enqueue(&Namespace::default(), jobs)
        .await
        .expect("it takes jobs");
    let write = |job: &punctual::JobRecord| {
        serde_json::Value::from(String::from_utf8_lossy(&job.payload)).to_string()
    };
    let sink = LineSink::new(SINK, Arc::new(write));
    let worker = Worker::new(&engine).queues(["out"]).handle_any(
        move |job: punctual::JobRecord, _: punctual::Context| {
            let sink = sink.clone();
            async move { sink.put(&job).await }
        },
    );
    worker.run_until_idle().await.expect("it works");
    let queue = Queue::new(&engine);
    let mut states = Vec::new();
    for id in ids {
        let got = queue
            .get(id)
            .await
            .expect("it answers")
            .and_then(|got| got.job().cloned());
        states.push(got.map(|job| (job.state, job.last_error.unwrap_or_default())));
    }
    assert_eq!(states[0], None);
    let (state, why) = states[1].clone().expect("it is kept");
    assert_eq!(state, JobState::Scheduled);
    assert!(why.contains("busy"), "{why}");
    let (state, why) = states[2].clone().expect("it is kept");
    assert_eq!(state, JobState::Dead);
    assert!(why.contains("no route"), "{why}");
}

/// A sink that cannot reach its broker eats no attempts; the job says why it waits.
#[tokio::test]
async fn a_sink_that_ends_before_any_answer_counts_no_attempt() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let queue = Queue::new(&engine);
    let mut job = NewJob::new("out", "1");
    job.max_attempts = 1;
    let id = job.id;
    queue.enqueue_many(vec![job]).await.expect("it is taken");
    let command = "echo 'the broker does not answer' >&2; exit 3";
    let sink = LineSink::new(command, Arc::new(|_: &punctual::JobRecord| "1".to_owned()));
    let worker = Worker::new(&engine).queues(["out"]).handle_any(
        move |job: punctual::JobRecord, _: punctual::Context| {
            let sink = sink.clone();
            async move { sink.put(&job).await }
        },
    );
    worker.run_until_idle().await.expect("it works");
    let got = queue
        .get(id)
        .await
        .expect("it answers")
        .expect("it is kept");
    let job = got.job().expect("it is not settled");
    assert_eq!((job.state, job.failures), (JobState::Scheduled, 0));
    let why = job.last_error.clone().unwrap_or_default();
    assert!(why.contains("the broker does not answer"), "{why}");
}

/// An outage of the broker started the command for each job that was due, at once.
#[tokio::test]
async fn a_sink_that_ends_before_any_answer_is_started_ever_less_often() {
    const STARTS: usize = 6;
    let sink = LineSink::new("exit 3", Arc::new(|_: &punctual::JobRecord| "1".to_owned()));
    let now = SystemClock.now();
    let job = punctual::JobRecord::new(NewJob::new("out", "1"), now, now);
    let watch = Stopwatch::start();
    for _ in 0..STARTS {
        sink.put(&job).await;
    }
    // The pauses before all but the first: half of 50 ms at least, and twice as long each time.
    let least = millis(25 * ((1 << (STARTS - 1)) - 1));
    assert!(watch.elapsed() >= least, "{:?}", watch.elapsed());
}

/// A sink that answers each job as `answers` says, with `$id` for its id.
fn odd_sink(answers: &str) -> LineSink {
    let command = format!(
        "while read -r line; do id=$(printf %s \"$line\" | cut -d'\"' -f4); {answers}; done"
    );
    LineSink::new(command, Arc::new(|_: &punctual::JobRecord| "1".to_owned()))
}

async fn sunk(engine: &Arc<dyn Engine>, sink: LineSink) {
    let worker = Worker::new(engine).queues(["out"]).handle_any(
        move |job: punctual::JobRecord, _: punctual::Context| {
            let sink = sink.clone();
            async move { sink.put(&job).await }
        },
    );
    worker.run_until_idle().await.expect("it works");
}

#[tokio::test]
async fn an_answer_that_no_job_waits_for_is_an_error_that_says_which() {
    let stray = "04f9eeb6-3bf7-873f-92c6-5bfedc883a00";
    for (answers, said) in [
        (
            r#"echo "{\"id\":\"$id\",\"done\":true}"; echo "{\"id\":\"$id\",\"done\":true}""#,
            "twice",
        ),
        (
            r#"echo '{"id":"04f9eeb6-3bf7-873f-92c6-5bfedc883a00","done":true}'"#,
            stray,
        ),
        (r#"echo '{"id":"seven","done":true}'"#, "seven"),
        (r#"echo "{\"id\":\"$id\"}""#, "either"),
        (
            r#"echo "{\"id\":\"$id\",\"done\":true,\"error\":\"no\"}""#,
            "either",
        ),
    ] {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let queue = Queue::new(&engine);
        let jobs: Vec<NewJob> = ["a"].map(|text| NewJob::new("out", text)).into();
        queue.enqueue_many(jobs).await.expect("it is taken");
        let health = punctual_relay::RelayHealth::default();
        sunk(&engine, odd_sink(answers).health(health.clone())).await;
        while health.numbers().restarts == 0 {
            punctual::time::pause(punctual::time::millis(1)).await;
        }
        let why = health.numbers().last_error.unwrap_or_default();
        assert!(why.contains(said), "{answers}: {why}");
    }
}

#[tokio::test]
async fn a_wrong_setting_ends_a_source_and_is_named_by_a_sink() {
    let engine = Arc::new(MemoryEngine::new());
    let relay = Relay::new(&engine, "test").expect("a name");
    let command = "echo 'error: no such table' >&2; exit 78";
    let ended = relay.run_until(source(command), std::future::pending());
    let error = ended.await.expect_err("no retry mends it");
    assert_eq!(error.kind(), punctual::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("no such table"), "{error}");

    // One that has worked is tried again: what it speaks with may come back.
    let relay = Relay::new(&engine, "test").expect("a name");
    let health = relay.health();
    let command = "echo '{\"lag\":0}'; exit 78";
    let running = tokio::spawn(relay.run_until(source(command), std::future::pending()));
    while health.numbers().restarts < 2 {
        punctual::time::pause(punctual::time::millis(1)).await;
    }
    running.abort();

    let engine: Arc<dyn Engine> = engine;
    let job = NewJob::new("out", "1");
    Queue::new(&engine)
        .enqueue_many([job])
        .await
        .expect("it is taken");
    let command = "echo 'error: the broker refuses the password' >&2; exit 78";
    let sink = LineSink::new(command, Arc::new(|_: &punctual::JobRecord| "1".to_owned()));
    assert!(sink.wrong_setting().is_none());
    sunk(&engine, sink.clone()).await;
    let error = sink.setting_is_wrong().await;
    assert!(
        error.to_string().contains("refuses the password"),
        "{error}"
    );
}
