//! Names whose name server does not answer: a tenant that uses them holds up only itself.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures_util::future::join_all;
use punctual::time::{millis, seconds, within};
use punctual::{JobRecord, Namespace, Outcome};
use punctual_push::{Allow, Guard, Resolve};
use tokio::sync::Semaphore;
use tokio::task::yield_now;

use crate::support::{Server, Under, job};

/// As the system's: so many threads, a line before them, and no lookup ends because no caller waits
/// for it.
#[derive(Debug)]
struct Threads {
    free: Arc<Semaphore>,
    /// Asked for each answer for names of `.evil`.
    answers: Arc<Semaphore>,
    hanging: Arc<AtomicUsize>,
}

const THREADS: usize = 64;

#[async_trait]
impl Resolve for Threads {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let (free, answers) = (self.free.clone(), self.answers.clone());
        let (hanging, hangs) = (self.hanging.clone(), host.ends_with(".evil"));
        let lookup = tokio::spawn(async move {
            let _thread = free.acquire_owned().await.expect("it is open");
            if hangs {
                hanging.fetch_add(1, Ordering::SeqCst);
                answers.acquire().await.expect("it is open").forget();
            }
        });
        lookup.await.expect("no panic");
        Ok(vec![Ipv4Addr::LOCALHOST.into()])
    }
}

async fn record(under: &Under, url: &str) -> JobRecord {
    under.get(under.enqueue(url).await).await
}

#[tokio::test]
async fn names_without_an_answer_hold_up_their_own_namespace_alone() {
    let server = Server::start(204).await;
    let port = server.address.port();
    let places = |name: String| -> Allow { format!("{name}:{port}").parse().expect("a place") };
    let names: Vec<String> = (0..4 * THREADS).map(|nth| format!("x{nth}.evil")).collect();
    let open = names.iter().cloned().chain(["good.example".to_owned()]);
    let under = Under::new(Guard::new().allow(open.map(places)));
    let threads = Arc::new(Threads {
        free: Arc::new(Semaphore::new(THREADS)),
        answers: Arc::new(Semaphore::new(0)),
        hanging: Arc::default(),
    });
    let pusher = under.pusher.clone().resolver(threads.clone());
    let evil = pusher
        .clone()
        .namespace(Namespace::new("evil").expect("a name"));
    let good = pusher.namespace(Namespace::new("good").expect("a name"));

    let mut jobs = Vec::new();
    for name in &names {
        let mut record = record(&under, &format!("http://{name}:{port}/")).await;
        record.timeout = Some(millis(5));
        jobs.push(record);
    }
    let verdicts = join_all(jobs.iter().map(|job| evil.deliver(job))).await;
    let error = |at: usize| -> String {
        let error = verdicts[at].error.as_ref();
        error.map(ToString::to_string).unwrap_or_default()
    };
    for (at, verdict) in verdicts.iter().enumerate() {
        // A job that waited for a permit was not posted: that is no failure.
        let is_good = match error(at).starts_with("target_lookup_busy") {
            true => matches!(verdict.outcome, Outcome::Snooze { .. }),
            false => matches!(verdict.outcome, Outcome::Retry { .. }),
        };
        assert!(is_good, "{} {:?}", error(at), verdict.outcome);
    }
    let busy = (0..names.len())
        .filter(|at| error(*at).starts_with("target_lookup_busy: this namespace (16)"));
    assert_eq!(busy.count(), names.len() - 16);
    let hanging = || threads.hanging.load(Ordering::SeqCst);
    let all_hang = async {
        while hanging() < 16 {
            yield_now().await;
        }
    };
    within(seconds(20), all_hang).await.expect("they hang");

    let theirs = record(&under, &format!("http://good.example:{port}/")).await;
    let posted = within(seconds(20), good.deliver(&theirs)).await;
    let posted = posted.expect("it is on time");
    assert_eq!(posted.outcome, Outcome::Completed, "{:?}", posted.error);

    assert_eq!(hanging(), 16);

    // Once their name server answers it is their turn again.
    threads.answers.add_permits(10 * THREADS);
    let mut again = job(&format!("http://{}:{port}/", names[100]));
    again.timeout = None;
    let again = under.get(under.send(again).await).await;
    let posted = within(seconds(20), evil.deliver(&again)).await;
    let posted = posted.expect("it is on time");
    assert_eq!(posted.outcome, Outcome::Completed, "{:?}", posted.error);
    assert_eq!(server.seen().len(), 2);
}
