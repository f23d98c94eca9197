//! Faults of the disk under an engine, by the spy that sees its writes and syncs.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use punctual::time::{millis, pause};
use punctual_redis::testing::TestServer;
use punctual_syncspy::{SyncSpan, SyncSpy, Tear};
use tokio::task::block_in_place;

use crate::plan::{Fault, Kind};
use crate::process::Kept;

/// Hits the disk of a server; one that has ended over it is started again.
pub(super) async fn hit_redis(server: &mut TestServer, spy: &SyncSpy, fault: &Fault) -> bool {
    if fault.kind == Kind::CutPower {
        // The tail of its log is cut at any byte; it would refuse a hole.
        let cut = block_in_place(|| spy.power_cut(fault.pick, Tear::Prefix));
        block_in_place(|| server.kill());
        pause(fault.span()).await;
        block_in_place(|| start_again(server));
        return cut.is_ok();
    }
    let done = hit(spy, fault).await.unwrap_or(false);
    if block_in_place(|| server.cli(&["PING"])) != "PONG" {
        block_in_place(|| start_again(server));
    }
    done
}

/// Starts a server. One with a torn file that it may not cut by itself, or is about to leave
/// behind, refuses, and waits for a person.
pub(super) fn start_again(server: &mut TestServer) {
    if !server.starts_again() {
        server.repair_append_only_files();
        server.restart();
    }
}

/// Hits the disk of a process that holds the embedded engine. After a failed sync that is broken
/// until it is opened again.
pub(super) async fn hit_host(host: &Kept, spy: &Arc<SyncSpy>, fault: &Fault) -> bool {
    if fault.kind == Kind::CutPower {
        let (spy, seed) = (spy.clone(), fault.pick);
        let tear = if seed % 2 == 0 {
            Tear::Prefix
        } else {
            Tear::Sectors
        };
        return host
            .kill_while(move || spy.heal().is_ok() && spy.cut_files(seed, tear).is_ok())
            .await;
    }
    let done = hit(spy, fault).await.unwrap_or(false);
    if fault.kind == Kind::FailSync {
        host.kill(millis(0)).await;
    }
    done
}

/// Before every other power cut the disk is slow, until that: what syncs take is to be seen in what
/// it takes.
pub(super) async fn be_slow(spy: Option<&SyncSpy>, fault: &Fault) {
    if let Some(spy) = spy
        && fault.pick.is_multiple_of(2)
        && spy.slow_sync(SLOW).is_ok()
    {
        pause(SLOW * 3).await;
    }
}

const SLOW: Duration = millis(800);

/// When each sync of the engine's log and of the names of its files began and was over, since the
/// last power cut; those of what it keeps besides hold nothing up that was acknowledged.
pub(super) fn syncs_of_log(spy: &SyncSpy) -> Vec<(u64, Option<u64>)> {
    let is_of_log = |sync: &SyncSpan| {
        let name = &*sync.name;
        name.starts_with("log-") || name == "data" || name.ends_with(".aof")
    };
    let syncs = spy.syncs().unwrap_or_default().into_iter();
    let of_log = syncs.filter(is_of_log);
    of_log.map(|sync| (sync.began, sync.ended)).collect()
}

async fn hit(spy: &SyncSpy, fault: &Fault) -> io::Result<bool> {
    let before = spy.counts()?;
    match fault.kind {
        Kind::SlowSync => spy.slow_sync(millis(1_000))?,
        Kind::FailSync => spy.fail_sync(1 + fault.pick % 5)?,
        _ => spy.fill_after(1 + fault.pick % 20)?,
    }
    pause(fault.span()).await;
    spy.heal()?;
    let after = spy.counts()?;
    Ok(match fault.kind {
        Kind::SlowSync => after.syncs > before.syncs,
        Kind::FailSync => after.failed_syncs > before.failed_syncs,
        _ => after.refused_writes > before.refused_writes,
    })
}
