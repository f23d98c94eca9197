//! A run: cells side by side, round after round, each round with faults, a drain and verdicts.

mod kept;
mod relayed;
mod round;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::future::ready;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use punctual::time::{Stopwatch, millis, pause, seconds, within};
use punctual::{Engine, JobId};

use crate::address;
use crate::again::{again, holds};
use crate::call_log::{self, History};
use crate::cell::{Cell, CellKind};
use crate::check;
use crate::event::Event;
use crate::foreign::Foreign;
use crate::nemesis::{self, Failovers, Targets};
use crate::plan::{REST, Track, is_among, plan, plan_of_relays, quiet_periods};
use crate::process::{Kept, Recipe};
use crate::roles::solo::is_idle;
use crate::scripted_outcome::Mix;
use crate::setting::Setting;
use crate::sink::mariadb::Server;
use crate::sink::{Sink, SinkAddress};
use crate::snapshot::Snapshot;
use crate::waits::Waits;

use self::kept::HASHED;
pub(crate) use self::kept::{FILE, verify};
pub(crate) use self::round::{Found, Round};

/// What is to be run.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) cells: Vec<CellKind>,
    /// Where the one cell is, if another operator keeps its servers.
    pub(crate) foreign: Option<Foreign>,
    pub(crate) seed: u64,
    /// How long faults go on in all.
    pub(crate) span: Duration,
    /// Faults per cell, at most.
    pub(crate) faults: usize,
    /// Tracks of faults; all of them if none is named.
    pub(crate) tracks: Vec<Track>,
    pub(crate) mix: Mix,
    /// Whether flows are sent, too.
    pub(crate) flows: bool,
    /// Whether queues with limits are kept full, too.
    pub(crate) limits: bool,
    /// Whether relays bring jobs in, too.
    pub(crate) relay: bool,
    /// Whether there are schedules, too.
    pub(crate) schedules: bool,
    pub(crate) batch: usize,
    pub(crate) rate: u32,
    /// Jobs that may stand ready before producers wait.
    pub(crate) ahead: u64,
    pub(crate) folder: PathBuf,
    /// What becomes of histories of rounds without a finding.
    pub(crate) keep: Keep,
    /// How long a round is.
    pub(crate) round: Duration,
    /// How long what is left may take to come to rest.
    pub(crate) drain: Duration,
    /// How long an engine may take to open and answer in the end.
    pub(crate) open: Duration,
    /// Whether a cell ends with the first round in which something is found.
    pub(crate) stops_when_found: bool,
    /// The server that takes effects; a file per round if there is none.
    pub(crate) sql: Option<Arc<Server>>,
    /// The bug that is injected in every process.
    pub(crate) injected: Option<String>,
}

/// What becomes of the histories of a round without a finding.
#[derive(Debug, Clone)]
pub(crate) enum Keep {
    /// They stay as they are.
    All,
    /// They are packed, as long as so many bytes are left for them.
    Packed(Arc<AtomicU64>),
}

impl Keep {
    fn settle(&self, round: &Path) -> io::Result<()> {
        let Self::Packed(left) = self else {
            return Ok(());
        };
        let bytes = call_log::pack(round)?;
        let take = |left: u64| left.checked_sub(bytes);
        if left.fetch_update(Relaxed, Relaxed, take).is_err() {
            call_log::remove(round)?;
        }
        Ok(())
    }
}

/// Tombstones of settled jobs are kept for two minutes: a round with its drain is shorter.
pub(crate) const ROUND_SECONDS: u64 = 45;
pub(crate) const DRAIN_SECONDS: u64 = 60;
/// How long an engine may take to open in the end.
pub(crate) const OPEN_SECONDS: u64 = 60;
/// How long what it is asked besides may take, a snapshot to be made, and the rest of a round to go
/// by.
const SAY_MAX: Duration = seconds(60);
/// How long a producer may go on: it gives up after 12 s, a call over HTTP under way after 30 s.
const SEND_MAX: Duration = seconds(60);
const SNAPSHOT_MAX: Duration = seconds(180);
const REST_MAX: Duration = seconds(300);
const WORKERS: usize = 3;
const PRODUCERS: usize = 2;

/// Runs every cell; answers the rounds as they end.
pub(crate) async fn run(
    wanted: Wanted,
    ended: impl Fn(&Round) -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<Vec<Round>> {
    let (wanted, ended) = (Arc::new(wanted), Arc::new(ended));
    let mut cells = Vec::new();
    for kind in wanted.cells.clone() {
        let (wanted, ended) = (wanted.clone(), ended.clone());
        cells.push(tokio::spawn(async move {
            run_cell(&wanted, kind, &*ended).await
        }));
    }
    let mut rounds = Vec::new();
    for cell in cells {
        rounds.extend(cell.await??);
    }
    Ok(rounds)
}

async fn run_cell(
    wanted: &Wanted,
    kind: CellKind,
    ended: &(impl Fn(&Round) -> io::Result<()> + Sync),
) -> io::Result<Vec<Round>> {
    let folder = wanted.folder.join(kind.name());
    fs::create_dir_all(&folder)?;
    let has_relays = wanted.relay && kind.has_relays();
    let cell = Cell::start(kind, &folder, wanted.foreign.clone(), has_relays).await?;
    let (mut rounds, mut faults, mut left) = (Vec::new(), wanted.faults, wanted.span);
    while left > Duration::ZERO && faults > 0 {
        let number = rounds.len() as u64;
        if number > 0
            && let Err(why) = cell.be_still_empty().await
        {
            // What was found before is to be reported all the same.
            if rounds.iter().all(Round::is_clean) {
                return Err(io::Error::other(format!("before round {number}: {why}")));
            }
            eprintln!("punctual-torture: no round {number}: {why}");
            break;
        }
        let span = left.min(wanted.round);
        let spans = span.as_millis() as u64;
        let mut plan = plan(wanted.seed, kind, number, spans);
        if has_relays {
            plan.extend(plan_of_relays(wanted.seed, number, spans));
            plan.sort_by_key(|fault| (fault.at, fault.track));
        }
        plan.retain(|fault| cell.is_hit_in(fault.track) && is_among(&wanted.tracks, fault.track));
        plan.truncate(faults);
        left -= span;
        let running = RoundRun {
            wanted,
            cell: &cell,
            number,
            folder: folder.join(format!("round-{number:03}")),
            quiet_periods: quiet_periods(spans),
        };
        // In a box: it is as large as all that it awaits.
        let round = Box::pin(running.run(&plan, span)).await?;
        faults = faults.saturating_sub(round.findings.tally.all_faults() as usize);
        ended(&round)?;
        let found = !round.is_clean();
        let is_over = round.findings.is_blind || !round.findings.is_cleared;
        rounds.push(round);
        if found && wanted.stops_when_found || is_over {
            break;
        }
    }
    Ok(rounds)
}

struct RoundRun<'a> {
    wanted: &'a Wanted,
    cell: &'a Cell,
    number: u64,
    folder: PathBuf,
    /// When its quiet periods begin, in milliseconds.
    quiet_periods: Vec<u64>,
}

impl RoundRun<'_> {
    async fn run(&self, plan: &[crate::plan::Fault], span: Duration) -> io::Result<Round> {
        let watch = Stopwatch::start();
        let setting = self.setting();
        setting.write()?;
        let history = Arc::new(History::create(&self.folder, "nemesis")?);
        let waits = Arc::new(Waits::new(self.folder.clone(), history.clone()));
        let _guard = waits.guard(self.longest(plan), "the round");
        let start = |role, number| self.start(role, number, &history, &waits);
        let solo = self.cell.kind.is_solo();
        let host = match (solo, self.cell.gateway) {
            (true, _) => Some(start("solo", 0)),
            (false, Some(port)) => Some(self.start_gateway(port, &history, &waits)),
            _ => None,
        };
        let workers = if solo { 0 } else { WORKERS };
        let producers = if solo { 0 } else { PRODUCERS };
        let relays = self.start_relays(&history, &waits)?;
        let failovers = Arc::new(Failovers::watch(self.cell.servers.clone()).await);
        let targets = Targets {
            failovers: failovers.clone(),
            cell: self.cell.kind,
            workers: (0..workers).map(|number| start("worker", number)).collect(),
            host,
            servers: self.cell.servers.clone(),
            proxy: self.cell.proxy.clone(),
            spy: self.cell.spy.clone(),
            clients: self.cell.clients.clone(),
            gateway: self.cell.door(),
            relays: relays.kept(),
            source: (self.cell.relays.as_ref()).map(|relays| relays.server.clone()),
        };
        let producers: Vec<_> = (0..producers)
            .map(|number| start("producer", number))
            .collect();
        let carrying =
            nemesis::carry_out(&targets, plan, &self.quiet_periods, span, &history, &waits);
        Box::pin(carrying).await;
        if self.quiet_periods.is_empty() {
            // The last fault is to be seen healed.
            pause(seconds(1)).await;
        }
        setting.say_enough()?;
        history.note(Event::Enough);
        for producer in producers {
            let what = format!("{} to send no more", producer.name());
            let over = holds(|| ready(producer.is_over()));
            waits.on(SEND_MAX, what, over).await;
            producer.end().await;
        }
        let Targets {
            workers,
            host,
            relays: hit,
            ..
        } = targets;
        drop(hit);
        let draining = Stopwatch::start();
        self.end_relays(relays, &waits).await;
        let (engine, host) = match host {
            Some(host) if solo => {
                self.drain_solo(host, &history, &waits).await;
                (self.open(&waits).await, None)
            }
            host => {
                let engine = self.open(&waits).await;
                if let Ok(engine) = &engine {
                    self.drain(&**engine, &history, &waits).await;
                }
                (engine, host)
            }
        };
        let drained = draining.elapsed();
        failovers.check(&history, &waits).await;
        for worker in workers {
            worker.end().await;
        }
        let sink = setting.sink.open()?;
        let snapshot = Box::pin(self.snapshot(engine, &*sink));
        let snapshot = waits.on(SNAPSHOT_MAX, "the snapshot", snapshot).await;
        let snapshot = snapshot.unwrap_or_else(|| Err("it does not end".into()));
        let snapshot = snapshot.or_else(|why| Snapshot::blind(&*sink, why))?;
        history.note(Event::Snapshot);
        failovers.check(&history, &waits).await;
        let took = watch.elapsed();
        snapshot.write(&self.folder)?;
        if let Some(host) = host {
            host.end().await;
        }
        self.judge(took, drained)
    }

    /// An engine for the snapshot.
    async fn open(&self, waits: &Waits) -> Result<Arc<dyn Engine>, String> {
        let address = self.cell.direct();
        let name = address::hidden(&address);
        let what = format!("{name} to open");
        let opening = again(self.time_limit(), || address::open(&address));
        let opened = waits.on(self.wanted.open, what, opening).await;
        let opened = opened.ok_or_else(|| format!("{name} does not open"))?;
        opened.map_err(|error| format!("{name} does not open: {error}"))
    }

    /// Shorter than an engine may take to open, so that the last error is reported.
    fn time_limit(&self) -> Duration {
        self.wanted.open.mul_f64(0.8)
    }

    /// Waits until the process that has its own engine has nothing left to do.
    async fn drain_solo(&self, host: Kept, history: &History, waits: &Waits) {
        let over = holds(|| ready(host.is_over()));
        let what = format!("{} to have nothing left to do", host.name());
        match waits.on(self.wanted.drain, what, over).await {
            Some(()) => history.note(Event::Drained),
            None => host.kill_for_good().await,
        }
    }

    /// Waits until nothing is left to do; else says what is left, and why.
    async fn drain(&self, engine: &dyn Engine, history: &History, waits: &Waits) {
        let idle = holds(|| async { is_idle(engine).await.unwrap_or(false) });
        match within(self.wanted.drain, idle).await {
            Some(()) => history.note(Event::Drained),
            None => {
                let left = within(SAY_MAX, Snapshot::left(engine)).await;
                let left = left.unwrap_or_else(|| "the engine does not say".into());
                waits.ran_out(self.wanted.drain, "nothing to be left to do", &left);
            }
        }
    }

    /// Longer than a round takes if each of its waits takes as long as it may.
    fn longest(&self, plan: &[crate::plan::Fault]) -> Duration {
        let last = plan.last().map_or(0, |fault| fault.at + fault.holds);
        millis(last)
            + REST * self.quiet_periods.len() as u32
            // Of relays, and of the engine.
            + self.wanted.drain * 2
            + SEND_MAX * PRODUCERS as u32
            + SNAPSHOT_MAX
            + REST_MAX
    }

    /// Reads everything; why not, if the engine cannot be read.
    async fn snapshot(
        &self,
        engine: Result<Arc<dyn Engine>, String>,
        sink: &dyn Sink,
    ) -> Result<Snapshot, String> {
        let engine = engine?;
        let said = |error: &dyn fmt::Display| error.to_string();
        let (mut ids, mut keys): (BTreeSet<JobId>, BTreeSet<(String, String)>) = Default::default();
        let (mut others, mut flows) = (BTreeSet::new(), Vec::new());
        for account in call_log::read(&self.folder).map_err(|error| said(&error))? {
            for line in account.lines {
                match line.event {
                    Event::EnqueueInvoke { jobs, .. } => {
                        for job in jobs {
                            ids.insert(job.id);
                            keys.extend(job.unique.map(|key| (job.queue, key)));
                        }
                    }
                    Event::Start { id, .. } => drop(others.insert(id)),
                    Event::LimitSend { ids: sent } => ids.extend(sent),
                    Event::MessageStart { id, .. } => drop(ids.insert(id)),
                    Event::FlowInvoke { plan } => {
                        ids.extend(plan.places().map(|place| place.id()));
                        flows.push(plan.name);
                    }
                    _ => {}
                }
            }
        }
        let mut relayed = None;
        if let Some(places) = self.places() {
            let seen = again(self.time_limit(), || relayed::see(&*engine, &places)).await;
            let seen = seen.map_err(|error| said(&error))?;
            ids.extend(seen.jobs.iter().map(|job| job.id));
            relayed = Some(seen);
        }
        // Others that ran are read, and are not the run's to delete.
        let seen: Vec<_> = ids.union(&others).copied().collect();
        let (ids, keys): (Vec<_>, Vec<_>) = (ids.into_iter().collect(), keys.into_iter().collect());
        let snapshot = again(self.time_limit(), || {
            Snapshot::at(&engine, sink, &seen, &keys, &flows)
        })
        .await;
        let mut snapshot = snapshot.map_err(|error| said(&error))?;
        snapshot.relayed = relayed;
        // What was seen is kept, whatever comes of this.
        let runs = snapshot.runs.values().flatten().map(|run| run.id);
        let ids: Vec<JobId> = ids.into_iter().chain(runs).collect();
        let clearing = again(self.time_limit(), || Snapshot::clear(&*engine, &ids));
        snapshot.uncleared = match within(SAY_MAX, clearing).await {
            Some(cleared) => cleared.err().map(|error| said(&error)),
            None => Some("it does not end".into()),
        };
        // A flow is known for a day after its end, and a share for some time.
        let setting = self.setting();
        let forgets =
            flows.is_empty() && !setting.limits && !setting.schedules && setting.relayed.is_none();
        let remains = match forgets {
            true => self.cell.remains().await,
            false => None,
        };
        match remains {
            Some(Ok(bytes)) => snapshot.remains = Some(bytes),
            Some(Err(why)) => snapshot.unmeasured = Some(why),
            None => {}
        }
        snapshot.tombstones = Some(self.cell.tombstones(ids.len() as u64));
        Ok(snapshot)
    }

    fn judge(&self, took: Duration, drained: Duration) -> io::Result<Round> {
        self.setting().without_password().write()?;
        let findings = check::check(&self.folder)?;
        let round = Round {
            cell: self.cell.kind,
            seed: self.wanted.seed,
            round: self.number,
            took: took.as_millis() as u64,
            drained: drained.as_millis() as u64,
            hash: call_log::hash(&self.folder, &HASHED)?,
            findings,
        };
        fs::write(self.folder.join(FILE), serde_json::to_vec_pretty(&round)?)?;
        if round.is_clean() {
            self.wanted.keep.settle(&self.folder)?;
        }
        Ok(round)
    }

    fn setting(&self) -> Setting {
        Setting {
            round: self.folder.clone(),
            engine: self.cell.address(),
            sink: self.sink(),
            mix: self.wanted.mix,
            batch: self.wanted.batch,
            rate: self.wanted.rate,
            ahead: self.wanted.ahead,
            solo: (PRODUCERS, 1),
            slots: 16,
            loses_at_most: self.cell.kind.loses_at_most(),
            may_lose: self.cell.kind.may_lose(),
            quiet_periods: self.quiet_periods.len() as u64,
            flows: self.wanted.flows && self.cell.kind.has_flows(),
            limits: self.wanted.limits && self.cell.kind.has_limits(),
            relayed: self.places(),
            schedules: self.wanted.schedules && self.cell.kind.has_limits(),
            is_elsewhere: self
                .wanted
                .foreign
                .as_ref()
                .is_some_and(Foreign::is_elsewhere),
        }
    }

    /// A file, or a database of the run's server.
    fn sink(&self) -> SinkAddress {
        match &self.wanted.sql {
            None => SinkAddress::Sqlite(self.folder.join("sink.sqlite")),
            Some(server) => SinkAddress::Mariadb {
                socket: server.socket().to_owned(),
                database: format!("{}-{}", self.cell.kind.name(), self.number),
            },
        }
    }

    fn start(
        &self,
        role: &'static str,
        number: usize,
        history: &Arc<History>,
        waits: &Arc<Waits>,
    ) -> Kept {
        let setting = self.folder.join("setting.json");
        let seed = self.wanted.seed ^ (self.number << 20);
        let arguments = move |name: &str| {
            let seed = name.bytes().fold(seed, |seed, byte| {
                seed.wrapping_mul(0x100_0193) ^ u64::from(byte)
            });
            let setting = setting.to_string_lossy().into_owned();
            [
                role,
                "--setting",
                &setting,
                "--name",
                name,
                "--seed",
                &seed.to_string(),
            ]
            .map(str::to_owned)
            .to_vec()
        };
        let recipe = Recipe {
            name: format!("{role}-{number}"),
            program: None,
            arguments: Box::new(arguments),
            environment: [self.environment(), self.cell.clients_environment()].concat(),
            log: self.folder.join("processes.log"),
            // It holds the engine: what was broken is whole once that is open.
            says_ready: role == "solo",
            again_after: millis(5),
            ends_by_itself: role != "worker",
        };
        Kept::start(recipe, history.clone(), waits.clone())
    }

    fn start_gateway(&self, port: u16, history: &Arc<History>, waits: &Arc<Waits>) -> Kept {
        let engine = self.cell.behind.clone();
        let arguments = move |_: &str| {
            ["host", "--engine", &engine, "--port", &port.to_string()]
                .map(str::to_owned)
                .to_vec()
        };
        let recipe = Recipe {
            name: "gateway".into(),
            program: None,
            arguments: Box::new(arguments),
            environment: [self.environment(), self.cell.environment()].concat(),
            log: self.folder.join("processes.log"),
            says_ready: true,
            again_after: millis(5),
            ends_by_itself: false,
        };
        Kept::start(recipe, history.clone(), waits.clone())
    }

    fn environment(&self) -> Vec<(String, OsString)> {
        let injected = self.wanted.injected.iter();
        injected
            .map(|bug| (crate::injected::VARIABLE.to_owned(), bug.into()))
            .collect()
    }
}
