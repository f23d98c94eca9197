//! How long lists, searches and pages of a large engine take.

use punctual::time::Stopwatch;
use punctual_redis::testing::TestServer;
use serde_json::json;

use crate::http::Connection;
use crate::server::Server;
use crate::{Arguments, announce, bulk, figure, rounded};

/// Reads of each sort.
const READS: usize = 200;

pub(crate) async fn measure(arguments: &Arguments, jobs: usize, engine: &str) {
    let place = tempfile::tempdir_in(&arguments.directory).expect("a directory");
    let redis = (engine == "redis").then(TestServer::start);
    let address = match &redis {
        Some(redis) => redis.address(),
        None => format!("file:{}/data?durability=os", place.path().display()),
    };
    let server = Server::start(&arguments.punctual, &address);
    let rate = bulk::load(server.address, 4, jobs).await;
    announce(&json!({"engine": engine, "jobs": jobs, "put_in_per_s": rounded(rate)}));
    let mut connection = Connection::open(server.address).await;
    let page = "/v1/jobs?queue=orders&state=ready&limit=50";
    let first = times(&mut connection, page).await;
    let with_payloads = percentile(&first, 0.99);
    let bare = times(&mut connection, &format!("{page}&payloads=false")).await;
    announce(
        &json!({"page_ms": {"p50": rounded(percentile(&first, 0.5)), "p99": rounded(with_payloads),
        "max": rounded(percentile(&first, 1.0)), "bare_p99": rounded(percentile(&bare, 0.99))}}),
    );
    figure(
        "ms of a page by queue and state, p99",
        with_payloads,
        "under 50",
    );

    // Nothing has that text: a search that finds nothing shows how far it came.
    let search = "/v1/jobs?text=no-such-text&payloads=false&limit=1000";
    let steps = times(&mut connection, search).await;
    let answer = connection.get(search).await;
    let examined = answer["examined"].as_u64().expect("a number");
    assert!(answer["cursor"].is_string(), "it goes on");
    announce(
        &json!({"search_step_ms": {"p50": rounded(percentile(&steps, 0.5)),
        "p99": rounded(percentile(&steps, 0.99))}, "examined_per_step": examined}),
    );
    figure(
        "ms to first matches and progress of a search, p99",
        percentile(&steps, 0.99),
        "under 50",
    );
}

/// Milliseconds of reads of a path, in order.
async fn times(connection: &mut Connection, path: &str) -> Vec<f64> {
    let mut times = Vec::new();
    for _ in 0..READS {
        let watch = Stopwatch::start();
        connection.get(path).await;
        times.push(watch.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    times
}

fn percentile(sorted: &[f64], share: f64) -> f64 {
    let at = (sorted.len() as f64 * share) as usize;
    sorted[at.min(sorted.len() - 1)]
}
