//! Schedules over the shards of a namespace: each lives in the shard of its jobs' group or unique
//! key, else of its name.

use std::sync::Arc;

use futures_util::future::try_join_all;
use punctual::engine::{Control, Controlled, RecordValue, ScheduleAct, VersionedRecord};
use punctual::schedule::{
    Listed, MoreInstants, SCHEDULE_PREFIX, Schedule, ScheduleStatus, tz_database,
};
use punctual::time::{Timestamp, seconds};
use punctual::{Error, ErrorKind, JobId, Namespace, Result};

use crate::session::calls::Calls;
use crate::session::shards::{Shard, of_id, of_key};
use crate::transport::node::Kind;
use crate::wire::mp::Mp;
use crate::wire::{control, schedule};

/// Runs that one call of a backfill enqueues.
const RUNS_MAX: usize = 50;
/// Lists that one call refills.
const REFILLS_MAX: usize = 16;
/// Instants that calendars name in one round.
const INSTANTS_PER_ROUND: usize = 1_024;
/// A first list begins that long before this process's clock, which may be ahead of the server's.
const CLOCK_ERROR: std::time::Duration = seconds(10);
/// The functions' numbers are exact up to there: 2^53 us.
const INSTANT_MAX: Timestamp = Timestamp::from_micros(1 << 53);

impl Calls {
    /// A control of schedules, or of the record of one; `None` if it is another.
    pub(crate) async fn control_schedules(
        &self,
        namespace: &Namespace,
        asked: &Control,
    ) -> Result<Option<Controlled>> {
        Ok(Some(match asked {
            Control::Schedules { after, limit } => {
                Controlled::Schedules(self.list_schedules(namespace, after, *limit).await?)
            }
            Control::Schedule { name, act } => self.act_on_schedule(namespace, name, act).await?,
            Control::Read { name } => match name.strip_prefix(SCHEDULE_PREFIX) {
                Some(name) => Controlled::Record(self.read_schedule(namespace, name).await?),
                None => return Ok(None),
            },
            Control::Write {
                name,
                expected,
                value,
            } => match (name.strip_prefix(SCHEDULE_PREFIX), value) {
                (Some(_), None) => self.remove_schedule(namespace, asked).await?,
                (Some(name), Some(RecordValue::Schedule(schedule))) => {
                    let written = self.write_schedule(namespace, name, *expected, schedule, asked);
                    written.await?
                }
                _ => return Ok(None),
            },
            _ => return Ok(None),
        }))
    }

    /// Asks each shard, and puts the answers together in the order of names.
    async fn list_schedules(
        &self,
        namespace: &Namespace,
        after: &str,
        limit: usize,
    ) -> Result<Vec<ScheduleStatus>> {
        let shards = self.shards_of(namespace).await?;
        let pages = shards.iter().map(async |shard| {
            let (mut found, mut from) = (Vec::new(), after.to_owned());
            loop {
                let map = schedule::list(&from, limit - found.len());
                let reply = self.change(shard, "control", Kind::Changes, &map).await?;
                let (page, more) = schedule::listed(&reply)?;
                found.extend(page);
                match more.filter(|_| found.len() < limit) {
                    Some(last) => from = last,
                    None => return Ok::<_, Error>(found),
                }
            }
        });
        let mut found: Vec<_> = try_join_all(pages).await?.into_iter().flatten().collect();
        found.sort_by(|one, other| one.name.cmp(&other.name));
        found.truncate(limit);
        Ok(found)
    }

    /// Where a schedule is, and how it stands: the search begins at its name's shard.
    async fn find_schedule(
        &self,
        namespace: &Namespace,
        name: &str,
    ) -> Result<Option<(usize, ScheduleStatus)>> {
        let shards = self.shards_of(namespace).await?;
        let first = home_of_name(name, shards.len());
        for step in 0..shards.len() {
            let index = (first + step) % shards.len();
            let map = schedule::act(name, &ScheduleAct::Read);
            let reply = self.change(&shards[index], "control", Kind::Changes, &map);
            if let Some(found) = schedule::acted(&reply.await?)? {
                return Ok(Some((index, found)));
            }
        }
        Ok(None)
    }

    async fn read_schedule(
        &self,
        namespace: &Namespace,
        name: &str,
    ) -> Result<Option<VersionedRecord>> {
        let found = self.find_schedule(namespace, name).await?;
        Ok(found.map(|(_, status)| {
            let value = RecordValue::Schedule(Box::new(status.schedule));
            VersionedRecord::new(status.version, value)
        }))
    }

    /// The shard that has a schedule, else that of its name.
    async fn shard_of_schedule(&self, namespace: &Namespace, name: &str) -> Result<usize> {
        let count = self.shards_of(namespace).await?.len();
        if count == 1 {
            return Ok(0);
        }
        let found = self.find_schedule(namespace, name).await?;
        Ok(found.map_or_else(|| home_of_name(name, count), |(index, _)| index))
    }

    async fn act_on_schedule(
        &self,
        namespace: &Namespace,
        name: &str,
        act: &ScheduleAct,
    ) -> Result<Controlled> {
        if *act == ScheduleAct::Read {
            let found = self.find_schedule(namespace, name).await?;
            return Ok(Controlled::Schedule(
                found.map(|(_, status)| Box::new(status)),
            ));
        }
        let index = self.shard_of_schedule(namespace, name).await?;
        let shard = &self.shards_of(namespace).await?[index];
        if let ScheduleAct::Backfill { instants } = act {
            let mut runs = Vec::with_capacity(instants.len());
            // A backfill of nothing asks whether there is such a schedule, too.
            let slices = instants.chunks(RUNS_MAX).map(<[Timestamp]>::to_vec);
            let slices = slices.chain(instants.is_empty().then(Vec::new));
            for instants in slices {
                let map = schedule::act(name, &ScheduleAct::Backfill { instants });
                let reply = self.change(shard, "control", Kind::Changes, &map).await?;
                runs.extend(schedule::runs(&reply)?);
            }
            return Ok(Controlled::Runs(runs));
        }
        let kind = match act {
            ScheduleAct::Restore { .. } => Kind::Changes,
            // A second sending would enqueue another run, or skip another one.
            _ => Kind::ChangesOnce,
        };
        let map = schedule::act(name, act);
        let reply = self.change(shard, "control", kind, &map).await?;
        match act {
            ScheduleAct::Run => Ok(Controlled::Runs(schedule::runs(&reply)?)),
            _ => Ok(Controlled::Schedule(schedule::acted(&reply)?.map(Box::new))),
        }
    }

    async fn remove_schedule(&self, namespace: &Namespace, asked: &Control) -> Result<Controlled> {
        let Control::Write { name, .. } = asked else {
            return Err(crate::wire::damaged());
        };
        let name = name.strip_prefix(SCHEDULE_PREFIX).unwrap_or(name);
        let index = self.shard_of_schedule(namespace, name).await?;
        let shard = &self.shards_of(namespace).await?[index];
        self.control_one(shard, asked, Kind::ChangesOnce).await
    }

    async fn write_schedule(
        &self,
        namespace: &Namespace,
        name: &str,
        expected: u64,
        schedule: &Schedule,
        asked: &Control,
    ) -> Result<Controlled> {
        check_instants(schedule)?;
        let shards = self.shards_of(namespace).await?;
        let index = home_of(name, schedule, shards.len());
        let mut map = control::request(asked);
        if shards.len() > 1 {
            let found = self.find_schedule(namespace, name).await?;
            if let Some((other, status)) = found.filter(|(other, _)| *other != index) {
                return Err(of_another_shard(
                    name,
                    expected,
                    status.version,
                    other,
                    index,
                ));
            }
            if expected == 0 {
                map.put("ot", self.count_schedules(&shards, index).await?);
            }
        }
        if !schedule.spec.is_sums() {
            let now = self.clock.now();
            let from = now
                .as_micros()
                .saturating_sub(CLOCK_ERROR.as_micros() as u64);
            let listed = Listed::new(
                Timestamp::from_micros(from),
                0,
                None,
                2 * missed_of(schedule),
            );
            if let Some(more) = schedule.spec.list(listed, now, INSTANTS_PER_ROUND) {
                schedule::put_list(&mut map, &more, tz_database());
            }
        }
        self.register(&shards[index], self.deadline()).await;
        // A second sending would meet the version that the first has made.
        let reply = self
            .change(&shards[index], "control", Kind::ChangesOnce, &map)
            .await?;
        control::reply(asked, &reply)
    }

    /// How many schedules all shards but one have.
    async fn count_schedules(&self, shards: &[Arc<Shard>], but: usize) -> Result<u64> {
        let others = shards.iter().enumerate().filter(|(index, _)| *index != but);
        let counts = others.map(async |(_, shard)| {
            let map = schedule::count();
            let reply = self.change(shard, "control", Kind::Changes, &map).await?;
            reply.get("c").number()
        });
        Ok(try_join_all(counts).await?.iter().sum())
    }

    /// Refills the lists that a `maintain` reported, as far as one round goes; whether it has
    /// refilled any.
    pub(crate) async fn refill_schedules(
        &self,
        shard: &Arc<Shard>,
        reported: &Mp,
        now: Timestamp,
    ) -> Result<bool> {
        let own = tz_database();
        let (mut lists, mut left) = (Vec::new(), INSTANTS_PER_ROUND);
        for short in reported.list()? {
            let short = schedule::Short::read(short)?;
            let is_older = !short.tz_database.is_empty() && *short.tz_database < *own;
            let is_newer = *short.tz_database > *own;
            // A process with a newer tz database is about: it knows better, unless it is gone.
            if left == 0 || is_newer && short.listed.count > 1 {
                continue;
            }
            let mut listed = short.listed;
            if is_older {
                listed.searched = Timestamp::from_micros(now.as_micros() + 1);
                (listed.count, listed.last) = (0, None);
            }
            let Some(more) = short.spec.list(listed, now, left) else {
                continue;
            };
            left -= more.instants.len();
            if is_older || more != nothing_more(listed) {
                lists.push(short.refill(&more, is_older, own));
            }
        }
        let mut done = false;
        for lists in lists.chunks(REFILLS_MAX) {
            let map = schedule::refills(lists.to_vec());
            let reply = self.change(shard, "control", Kind::Changes, &map).await?;
            done |= reply.get("d").is_set();
        }
        Ok(done)
    }
}

fn nothing_more(listed: Listed) -> MoreInstants {
    MoreInstants::new(Vec::new(), listed.searched, false)
}

fn missed_of(schedule: &Schedule) -> usize {
    match schedule.missed {
        punctual::schedule::Missed::All { max } => max as usize,
        _ => 0,
    }
}

fn home_of_name(name: &str, count: usize) -> usize {
    of_id(JobId::occurrence(name, Timestamp::ZERO), count)
}

/// Where a schedule's jobs belong: its group decides, else its unique key, else its name.
fn home_of(name: &str, schedule: &Schedule, count: usize) -> usize {
    let job = &schedule.template;
    match (&job.group, &job.unique) {
        (Some(group), _) => of_key(&job.queue, &group.key, count),
        (None, Some(unique)) => of_key(&job.queue, &unique.key, count),
        (None, None) => home_of_name(name, count),
    }
}

fn check_instants(schedule: &Schedule) -> Result<()> {
    let spec = &schedule.spec;
    let Some(far) = spec
        .at
        .iter()
        .chain(&spec.start)
        .find(|at| **at > INSTANT_MAX)
    else {
        return Ok(());
    };
    let message =
        "schedule: the Redis engine knows instants up to the year 2255; name an earlier one";
    Err(Error::new(ErrorKind::InvalidInput, message).with("instant", far))
}

/// A schedule that would have to move to another shard.
fn of_another_shard(name: &str, expected: u64, version: u64, from: usize, to: usize) -> Error {
    if expected != version {
        let message = "record was changed since it was read; read it again";
        return Error::new(ErrorKind::VersionConflict, message)
            .with("record", format!("{SCHEDULE_PREFIX}{name}"))
            .with("version", version);
    }
    let message = "schedule: its jobs' group or unique key belongs to another shard; remove the \
                   schedule and set it again";
    Error::new(ErrorKind::Conflict, message)
        .with("schedule", name)
        .with("from_shard", from)
        .with("to_shard", to)
}
