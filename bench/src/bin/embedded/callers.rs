//! Enqueues per second by the number of callers, beside raw syncs of the disk.

use std::path::Path;
use std::sync::Arc;

use punctual::engine::Durability;
use punctual::time::Stopwatch;
use punctual::{Engine, Namespace, NewJob};
use punctual_bench::random::Random;
use punctual_embedded::EmbeddedEngine;
use punctual_embedded::disk::{Disk, Folder};
use serde_json::json;

use crate::beanstalkd::Server;
use crate::{announce, figure, fresh, median, open, payload};

const SYNCS: usize = 2_000;

pub(crate) async fn measure(directory: &Path, callers: usize, jobs: usize, runs: usize) {
    let [mut syncs, mut os, mut fsync, mut rival] = [const { Vec::new() }; 4];
    for run in 0..runs {
        syncs.push(syncs_per_s(directory));
        os.push(enqueues_per_s(directory, Durability::Os, callers, jobs).await);
        fsync.push(enqueues_per_s(directory, Durability::Fsync, callers, jobs).await);
        rival.push(beanstalkd_per_s(directory, callers, jobs / 10));
        announce(&json!({
            "run": run + 1, "callers": callers, "jobs": jobs, "disk_syncs_per_s": syncs[run].round(),
            "os_per_s": os[run].round(), "fsync_per_s": fsync[run].round(),
            "beanstalkd_fsync_per_s": rival[run].round(),
        }));
    }
    let [syncs, os, fsync, rival] = [syncs, os, fsync, rival].map(median);
    let bound = os.min(syncs * callers as f64);
    figure("fsync of its bound", fsync / bound, "at least 0.5");
    figure("fsync of beanstalkd -f 0", fsync / rival, "over 1");
}

/// 4 KiB written and synced, one after the other, in a file that does not grow.
fn syncs_per_s(directory: &Path) -> f64 {
    let place = fresh(directory);
    let file = Folder::new(place.path()).create("syncs").expect("create");
    let block = vec![1; 4_096];
    file.write_at(0, &vec![0; block.len() * SYNCS])
        .and_then(|()| file.sync())
        .expect("write");
    let watch = Stopwatch::start();
    for n in 0..SYNCS {
        file.write_at((n * block.len()) as u64, &block)
            .expect("write");
        file.sync().expect("sync");
    }
    SYNCS as f64 / watch.elapsed().as_secs_f64()
}

async fn enqueues_per_s(directory: &Path, how: Durability, callers: usize, jobs: usize) -> f64 {
    let place = fresh(directory);
    let engine = Arc::new(open(&place.path().join("data"), how));
    let watch = Stopwatch::start();
    let tasks: Vec<_> = (0..callers)
        .map(|caller| tokio::spawn(enqueue(engine.clone(), caller, jobs / callers)))
        .collect();
    for task in tasks {
        task.await.expect("a caller ends");
    }
    (jobs / callers * callers) as f64 / watch.elapsed().as_secs_f64()
}

async fn enqueue(engine: Arc<EmbeddedEngine>, caller: usize, jobs: usize) {
    let mut random = Random::new(caller as u64);
    for _ in 0..jobs {
        let job = NewJob::new("orders", payload(&mut random));
        let enqueued = engine.enqueue(&Namespace::default(), vec![job]).await;
        enqueued.expect("enqueue");
    }
}

fn beanstalkd_per_s(directory: &Path, callers: usize, jobs: usize) -> f64 {
    let place = fresh(directory);
    let server = Server::start(place.path());
    let payload = payload(&mut Random::new(1));
    let watch = Stopwatch::start();
    std::thread::scope(|scope| {
        for _ in 0..callers {
            scope.spawn(|| server.put(jobs / callers, &payload).expect("put"));
        }
    });
    (jobs / callers * callers) as f64 / watch.elapsed().as_secs_f64()
}
