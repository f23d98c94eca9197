//! Carries out a plan.

mod clocks;
mod disk;
mod failovers;
mod relays;
mod rogue_clients;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use futures_util::future::join_all;
use punctual::time::{Stopwatch, millis, pause, seconds};
use punctual_redis::testing::{Ending, TestProxy, TestServer, Way, Weather};
use punctual_syncspy::SyncSpy;
use tokio::sync::Mutex;
use tokio::task::block_in_place;

use crate::call_log::History;
use crate::cell::{CellKind, Servers};
use crate::event::Event;
use crate::plan::{Fault, Kind, REST, Track};
use crate::process::Kept;
use crate::waits::Waits;

pub(crate) use failovers::Failovers;

/// What a plan can hit.
pub(crate) struct Targets {
    pub(crate) cell: CellKind,
    pub(crate) workers: Vec<Kept>,
    /// The gateway, or the process that has its own engine.
    pub(crate) host: Option<Kept>,
    pub(crate) servers: Arc<Mutex<Servers>>,
    pub(crate) proxy: Option<Arc<TestProxy>>,
    pub(crate) spy: Option<Arc<SyncSpy>>,
    /// What sets the clocks of producers and workers.
    pub(crate) clients: Option<Arc<SyncSpy>>,
    /// The port of a gateway that rogue clients can come to.
    pub(crate) gateway: Option<u16>,
    pub(crate) failovers: Arc<Failovers>,
    pub(crate) relays: Arc<Vec<Kept>>,
    /// The server that relays take from.
    pub(crate) source: Option<Arc<Mutex<TestServer>>>,
}

/// How long what a fault hit may take until it runs again, on a machine that has other work too.
const HEALS_MAX: Duration = seconds(90);

/// Causes the faults of a plan, track by track, and heals each; in quiet periods none holds. Where
/// faults take their time there are fewer until the next rest, or until the span is over, and a
/// quiet period begins once the last one has healed.
pub(crate) async fn carry_out(
    targets: &Targets,
    plan: &[Fault],
    quiet_periods: &[u64],
    span: Duration,
    history: &History,
    waits: &Waits,
) {
    let carrying = Carrying {
        targets,
        history,
        waits,
        watch: Stopwatch::start(),
        numbers: AtomicU64::new(0),
    };
    let ends = match quiet_periods {
        [] => vec![span],
        quiet_periods => quiet_periods.iter().copied().map(millis).collect(),
    };
    let mut left = plan;
    let mut tracks = vec![
        Track::Workers,
        Track::Servers,
        Track::Network,
        Track::RogueClients,
        Track::Relays,
        Track::Sources,
    ];
    for (number, end) in ends.iter().enumerate() {
        let (now, later) = left.split_at(left.partition_point(|fault| millis(fault.at) < *end));
        left = later;
        let going = tracks.iter().map(|track| carrying.go(*track, now, *end));
        let goes_on = join_all(going).await;
        let mut goes_on = goes_on.into_iter();
        tracks.retain(|_| goes_on.next().unwrap_or(false));
        let next = ends.get(number + 1);
        let is_next_due = next.is_some_and(|next| *next <= carrying.watch.elapsed());
        if !quiet_periods.is_empty() && !is_next_due {
            pause(end.saturating_sub(carrying.watch.elapsed())).await;
            carrying.rest().await;
        }
        if left.is_empty() {
            return;
        }
    }
}

struct Carrying<'a> {
    targets: &'a Targets,
    history: &'a History,
    waits: &'a Waits,
    watch: Stopwatch,
    numbers: AtomicU64,
}

impl Carrying<'_> {
    /// The faults of a track, until an instant of the round; whether the track goes on: it ends
    /// with one that does not heal.
    async fn go(&self, track: Track, plan: &[Fault], end: Duration) -> bool {
        for fault in plan.iter().filter(|fault| fault.track == track) {
            pause(millis(fault.at).saturating_sub(self.watch.elapsed())).await;
            if track == Track::Servers && self.watch.elapsed() <= end {
                self.targets.failovers.check(self.history, self.waits).await;
            }
            if self.watch.elapsed() > end {
                return true;
            }
            if self.bring_about(fault).await.is_none() {
                return false;
            }
        }
        true
    }

    /// `None` if a wait for it ran out.
    async fn bring_about(&self, fault: &Fault) -> Option<()> {
        let (targets, history, waits) = (self.targets, self.history, self.waits);
        let ready = targets.prepare(fault, history);
        let what = format!("{} to be prepared", fault.kind.what());
        waits.on(HEALS_MAX, what, ready).await?;
        let number = self.numbers.fetch_add(1, Relaxed);
        history.note(Event::Fault {
            number,
            id: fault.kind.id_in(targets.cell).into(),
            what: fault.kind.what().into(),
            on: targets.on(fault),
        });
        if fault.kind == Kind::KillEngine && targets.cell.is_everysec() {
            targets.note_unwritten(history).await;
        }
        if fault.kind == Kind::CutPower && targets.cell.loses_at_most().is_some() {
            targets.note_syncs(history);
        }
        let heals_max = fault.span() + HEALS_MAX;
        let what = format!("fault {number}, {}, to heal", fault.kind.what());
        let done = waits.on(heals_max, what, targets.hit(fault)).await?;
        if fault.track == Track::Servers {
            targets.failovers.expect().await;
        }
        let met = done && fault.kind.is_counted();
        history.note(Event::Healed { number, done, met });
        Some(())
    }

    /// Nothing is broken for a while, unless sentinels break it by themselves.
    async fn rest(&self) {
        self.targets.failovers.check(self.history, self.waits).await;
        self.history.note(Event::Rest);
        pause(REST).await;
        self.history.note(Event::Rested);
        self.targets.failovers.check(self.history, self.waits).await;
    }
}

impl Targets {
    /// The processes that a fault hits, where it hits some and not what all share.
    fn on(&self, fault: &Fault) -> Vec<String> {
        if matches!(fault.track, Track::Relays | Track::Sources) {
            return self.relays_hit(fault);
        }
        let workers = match fault.kind {
            Kind::KillWorker | Kind::StopWorker | Kind::TerminateWorker => vec![self.worker(fault)],
            Kind::StopWorkers => self.workers.iter().collect(),
            _ => Vec::new(),
        };
        let names = workers.into_iter().map(Kept::name);
        names.map(str::to_owned).collect()
    }

    fn worker(&self, fault: &Fault) -> &Kept {
        &self.workers[fault.pick as usize % self.workers.len()]
    }

    /// Causes a fault and heals it; answers whether it was caused.
    async fn hit(&self, fault: &Fault) -> bool {
        match fault.track {
            Track::Workers => self.hit_worker(fault).await,
            Track::Servers => self.hit_server(fault).await,
            Track::Relays => self.hit_relay(fault).await,
            Track::Sources => self.hit_source(fault).await,
            Track::Network => match &self.proxy {
                Some(proxy) => hit_network(proxy, fault).await,
                None => false,
            },
            Track::RogueClients => match self.gateway {
                Some(port) => rogue_clients::come(port, fault).await,
                None => false,
            },
        }
    }

    /// Causes what a fault is to meet.
    async fn prepare(&self, fault: &Fault, history: &History) {
        if fault.kind == Kind::CutPower && self.cell == CellKind::EmbeddedInterval {
            disk::be_slow(self.spy.as_deref(), fault).await;
        }
        if fault.kind != Kind::OutrunReplicas {
            return;
        }
        let Servers::Sentinels(sentinels) = &*self.servers.lock().await else {
            return;
        };
        // A master that has nothing has lost everything, and the engine refuses it until a restart:
        // what takes over must have had a part of the jobs.
        let has_jobs = || {
            let replicas = sentinels.replicas_of_master();
            let mut sizes = replicas.iter().map(|server| server.cli(&["DBSIZE"]));
            sizes.all(|size| size.trim() != "0")
        };
        while !block_in_place(has_jobs) {
            pause(millis(20)).await;
        }
        block_in_place(|| sentinels.cut_off_replicas());
        let before = history.acknowledged();
        while history.acknowledged() < before + OUTRUN_BY {
            pause(millis(20)).await;
        }
    }

    async fn note_unwritten(&self, history: &History) {
        if let Servers::One(server) = &*self.servers.lock().await {
            let said = block_in_place(|| server.cli(&["INFO", "persistence"]));
            let number = |name: &str| {
                let value = said.lines().find_map(|line| line.strip_prefix(name));
                value
                    .and_then(|value| value.trim().parse().ok())
                    .unwrap_or(0)
            };
            history.note(Event::Unwritten {
                bytes: number("aof_buffer_length:"),
                delayed: number("aof_delayed_fsync:"),
            });
        }
    }

    fn note_syncs(&self, history: &History) {
        let spans = self.spy.as_deref().map(disk::syncs_of_log);
        history.note(Event::Syncs {
            spans: spans.unwrap_or_default(),
        });
    }

    async fn hit_worker(&self, fault: &Fault) -> bool {
        let worker = self.worker(fault);
        match fault.kind {
            Kind::KillWorker => worker.kill(fault.span()).await,
            Kind::StopWorker => worker.stop(fault.span()).await,
            Kind::StopWorkers => {
                let stops = self.workers.iter().map(|worker| worker.stop(fault.span()));
                join_all(stops).await.into_iter().all(|stopped| stopped)
            }
            Kind::ClientClock => clocks::hit(self.clients.as_deref(), fault).await,
            _ => worker.terminate().await,
        }
    }

    async fn hit_server(&self, fault: &Fault) -> bool {
        match (fault.kind, &self.host) {
            (Kind::KillGateway, Some(host)) => return host.kill(fault.span()).await,
            (Kind::StopGateway, Some(host)) => return host.stop(fault.span()).await,
            _ => {}
        }
        if matches!(fault.kind, Kind::ClockAhead | Kind::ClockBack) {
            return clocks::hit(self.spy.as_deref(), fault).await;
        }
        let mut servers = self.servers.lock().await;
        if let Some(spy) = &self.spy
            && matches!(
                fault.kind,
                Kind::CutPower | Kind::SlowSync | Kind::FailSync | Kind::FullDisk
            )
        {
            return match (&mut *servers, &self.host) {
                (Servers::One(server), _) => disk::hit_redis(server, spy, fault).await,
                (_, Some(host)) => disk::hit_host(host, spy, fault).await,
                _ => false,
            };
        }
        match &mut *servers {
            Servers::None => match &self.host {
                Some(host) if fault.kind == Kind::StopEngine => host.stop(fault.span()).await,
                Some(host) => host.kill(fault.span()).await,
                None => false,
            },
            Servers::One(server) => hit_redis(server, fault).await,
            Servers::Sentinels(sentinels) => {
                if fault.kind == Kind::LeaveMaster {
                    block_in_place(|| sentinels.stop_master());
                    pause(fault.span()).await;
                    block_in_place(|| sentinels.go_on_stopped());
                } else {
                    block_in_place(|| match fault.kind {
                        Kind::OutrunReplicas => sentinels.replace_outrun_master(),
                        _ => sentinels.kill_master(),
                    });
                    pause(fault.span()).await;
                    block_in_place(|| sentinels.restart_killed());
                }
                // Before that, calls that wait for both replicas are answered that they are too
                // few, and sentinels may make a master of one that has not all it once had.
                while !block_in_place(|| sentinels.are_whole()) {
                    pause(millis(50)).await;
                }
                true
            }
            Servers::Cluster(cluster) => match fault.kind {
                // To one of the two others: where it is it would stay.
                Kind::MoveSlot => block_in_place(|| {
                    let to = (cluster.owner_of(SHARD) + 1 + fault.pick as usize % 2) % 3;
                    cluster.move_slot(SHARD, to);
                    true
                }),
                // Others have nothing.
                _ => {
                    let holder = block_in_place(|| cluster.owner_of(SHARD));
                    let done = hit_redis(&mut cluster.nodes()[holder], fault).await;
                    // A master that starts again takes nothing for two seconds.
                    while !block_in_place(|| cluster.is_whole()) {
                        pause(millis(50)).await;
                    }
                    done
                }
            },
        }
    }
}

/// Calls that a master alone has acknowledged when it is lost: more than were under way when its
/// replicas were cut off.
const OUTRUN_BY: usize = 20;

/// The key whose slot holds every job of a run.
const SHARD: &str = "punctual:{default/0}";

async fn hit_redis(server: &mut TestServer, fault: &Fault) -> bool {
    match fault.kind {
        Kind::KillEngine => {
            block_in_place(|| server.kill());
            pause(fault.span()).await;
            block_in_place(|| disk::start_again(server));
            true
        }
        Kind::StopEngine => {
            block_in_place(|| server.stop());
            pause(fault.span()).await;
            server.go_on();
            true
        }
        Kind::NewerFunctions => block_in_place(|| load_newer(server)),
        Kind::Empty => block_in_place(|| server.cli(&["FLUSHALL"])) == "OK",
        Kind::EmptyDisk => block_in_place(|| empty_disk(server)),
        Kind::OtherDatabase => block_in_place(|| point_elsewhere(server)),
        Kind::FullMemory => {
            let said = block_in_place(|| server.cli(&["CONFIG", "SET", "maxmemory", "1"]));
            pause(fault.span()).await;
            block_in_place(|| server.cli(&["CONFIG", "SET", "maxmemory", "0"])) == "OK"
                && said == "OK"
        }
        _ => block_in_place(|| {
            let said = match fault.pick % 4 {
                0 => server.cli(&["FUNCTION", "FLUSH"]),
                1 => server.cli(&["FUNCTION", "DELETE", "punctual_1"]),
                2 => server.cli(&["SCRIPT", "FLUSH"]),
                _ => server.cli(&["FUNCTION", "LOAD", "REPLACE", OLD_LIBRARY]),
            };
            said == "OK" || said == "punctual_1"
        }),
    }
}

/// Starts a server as if on another disk.
fn empty_disk(server: &mut TestServer) -> bool {
    server.kill();
    let gone = std::fs::remove_dir_all(server.directory().join("appendonlydir"));
    server.restart();
    gone.is_ok()
}

/// Every connection, and each that is made, finds another database under the number of its own.
/// What a round before left there is not to come back.
fn point_elsewhere(server: &TestServer) -> bool {
    let emptied = server.cli(&["-n", "1", "FLUSHDB"]);
    emptied == "OK" && server.cli(&["SWAPDB", "0", "1"]) == "OK"
}

/// The functions that are there, under the next version: what a newer program loads. Older programs
/// leave it alone. False if there are none.
fn load_newer(server: &TestServer) -> bool {
    let named = ["FUNCTION", "LIST", "LIBRARYNAME", "punctual_1", "WITHCODE"];
    let said = server.cli(&named);
    let Some(at) = said.find("#!lua") else {
        return false;
    };
    let is_version = |line: &&str| line.starts_with("local VERSION = ");
    let Some(version) = said.lines().find(is_version) else {
        return false;
    };
    let newer = said[at..].replacen(version, &format!("{version} + 1"), 1);
    server.cli(&["FUNCTION", "LOAD", "REPLACE", &newer]) == "punctual_1"
}

/// A library of the same name that knows that it is old and nothing else.
const OLD_LIBRARY: &str = "#!lua name=punctual_1\nredis.register_function{function_name='punctual_1_version', \
     flags={'no-writes'}, callback=function() return 0 end}";

async fn hit_network(proxy: &TestProxy, fault: &Fault) -> bool {
    let weather = match fault.kind {
        Kind::BlackHole => Some(Weather::BlackHole),
        Kind::Slow => Some(Weather::Slow(millis(200))),
        Kind::Thin => Some(Weather::Thin(4_096)),
        Kind::NoReplies => Some(Weather::NoReplies),
        _ => None,
    };
    if let Some(weather) = weather {
        proxy.set_weather(weather);
        pause(fault.span()).await;
        proxy.set_weather(Weather::Fair);
        return true;
    }
    let ending = match fault.kind {
        Kind::Reset => Some(Ending::Reset),
        Kind::HalfClose => Some(Ending::HalfClosed),
        Kind::Drop => Some(Ending::Closed),
        _ => None,
    };
    if let Some(ending) = ending {
        proxy.end_all(ending);
        return true;
    }
    let way = if fault.kind == Kind::CutRequest {
        Way::Request
    } else {
        Way::Reply
    };
    proxy.cut_after(way, fault.pick as usize % 3_000);
    pause(fault.span()).await;
    let has_cut = proxy.has_cut(way);
    proxy.cut_no_more(way);
    has_cut
}
