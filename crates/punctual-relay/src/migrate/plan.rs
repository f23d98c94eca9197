//! What a migration would do: it only reads.

use std::collections::BTreeMap;

use bytes::Bytes;
use punctual::{Error, ErrorKind, JobId, Limits, NewJob, Result};

use super::Migration;
use super::found::{Found, Place, Read, Shape};
use crate::redis::Connection;

/// Jobs that one call reads.
pub(super) const PAGE: usize = 500;
/// Jobs of a state, and names of a reason, that are shown.
const SHOWN: usize = 3;
/// Kinds that are counted apart.
const KINDS_MAX: usize = 200;
/// Reasons that are counted apart: some name a key.
const REASONS_MAX: usize = 100;
/// Bytes of a payload that are shown.
const PREVIEW: usize = 120;

/// What there is to take, and what stays.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Plan {
    /// The version that wrote the queue, if it says so.
    pub version: Option<String>,
    /// Jobs to take, by the library's word for their state, with samples.
    pub takes: BTreeMap<String, Samples>,
    /// Jobs to take, by kind.
    pub kinds: BTreeMap<String, u64>,
    /// Jobs that stay where they are, by the reason, with names.
    pub stays: BTreeMap<String, Samples>,
    /// Whether the library starts no job of the queue: it must be paused here too then.
    pub is_paused: bool,
}

/// A number of jobs, and the first ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Samples {
    /// How many there are.
    pub jobs: u64,
    /// Up to three, in words.
    pub shown: Vec<String>,
}

impl Samples {
    pub(super) fn add(&mut self, text: impl FnOnce() -> String) {
        self.jobs += 1;
        if self.shown.len() < SHOWN {
            self.shown.push(text());
        }
    }
}

/// A job and the handle by which it is taken.
pub(super) struct Listed {
    pub(super) name: String,
    pub(super) handle: Bytes,
    pub(super) found: Found,
}

impl Migration {
    /// Reads every job of the queue and says what would become of it. It takes nothing.
    pub async fn plan(&self) -> Result<Plan> {
        let mut connection = self.key.connect().await?;
        let plan = self.read_plan(&mut connection).await?;
        let is_empty = plan.takes.is_empty() && plan.stays.is_empty();
        if is_empty && !self.is_known(&mut connection).await? {
            return Err(self.no_such_queue(&mut connection).await);
        }
        Ok(plan)
    }

    pub(super) async fn read_plan(&self, connection: &mut Connection) -> Result<Plan> {
        let mut plan = Plan {
            version: self.version(connection).await?,
            is_paused: self.format.is_paused(connection).await?,
            ..Plan::default()
        };
        for place in &self.places {
            if let Some(why) = self.is_odd(connection, place).await? {
                let stays = entry(&mut plan.stays, why);
                stays.add(|| place.key.clone());
                continue;
            }
            let mut from = 0;
            loop {
                let page = self.page(connection, place, from).await?;
                if page.is_empty() {
                    break;
                }
                from += page.len();
                for listed in &page {
                    self.add(&mut plan, place, listed);
                }
                // What stays is counted, and not read to its end.
                if place.stays.is_some() {
                    let all = self.count(connection, place).await?;
                    let rest = all.saturating_sub(page.len() as u64);
                    if let Some(stays) = plan.stays.get_mut(&stays_as(place)) {
                        stays.jobs += rest;
                    }
                    break;
                }
            }
        }
        Ok(plan)
    }

    /// The version of the library; a queue that is not there is named with those that are.
    pub(super) async fn version(&self, connection: &mut Connection) -> Result<Option<String>> {
        match self.format.check(connection).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(self.no_such_queue(connection).await)
            }
            version => version,
        }
    }

    fn add(&self, plan: &mut Plan, place: &Place, listed: &Listed) {
        if place.stays.is_some() {
            // Workers of all queues hold their messages in one key.
            let is_other = place.shape == Shape::Held
                && matches!(self.format.read(&listed.found), Read::OfAnother);
            if !is_other {
                let stays = plan.stays.entry(stays_as(place)).or_default();
                stays.add(|| listed.name.clone());
            }
            return;
        }
        match self.read(&listed.found, JobId::new(), &listed.name) {
            Ok(Some(job)) => {
                if plan.kinds.len() < KINDS_MAX || plan.kinds.contains_key(&job.kind) {
                    *plan.kinds.entry(job.kind.clone()).or_default() += 1;
                }
                let takes = plan.takes.entry(place.state.to_owned()).or_default();
                takes.add(|| in_words(&job, &listed.name));
            }
            Ok(None) => {}
            Err(why) => {
                let stays = entry(&mut plan.stays, why);
                stays.add(|| listed.name.clone());
            }
        }
    }

    /// The job of what was found; `None` if it is of another queue; why it stays.
    pub(super) fn read(
        &self,
        found: &Found,
        id: JobId,
        name: &str,
    ) -> Result<Option<NewJob>, String> {
        if let Some(why) = &found.is_odd {
            return Err(why.clone());
        }
        match self.format.read(found) {
            Read::OfAnother => Ok(None),
            Read::Stays(why) => Err(why),
            Read::Job(mut foreign) => {
                foreign.enqueued_at = foreign.enqueued_at.or(found.taken_at);
                let job = foreign.into_job(id, &self.into, &self.source, name);
                match job.check(&Limits::default()) {
                    Ok(()) => Ok(Some(job)),
                    Err(error) => Err(error.message().to_owned()),
                }
            }
        }
    }

    /// Why a place is left as a whole: its key holds something else. Where that is the queue
    /// itself, nothing is as the library writes it, and it is an error.
    pub(super) async fn is_odd(
        &self,
        connection: &mut Connection,
        place: &Place,
    ) -> Result<Option<String>> {
        let mut keys = vec![(place.key.clone(), place.shape.type_name())];
        if place.shape == Shape::Held {
            keys.push((format!("{}_index", place.key), "zset"));
        }
        for (key, wanted) in keys {
            let mut command = redis::cmd("TYPE");
            let held: String = connection.ask(command.arg(&key)).await?;
            if held == "none" || held == wanted {
                continue;
            }
            if place.key == self.places[0].key {
                let message = "the key of the queue holds another type than the library writes; \
                               check the queue and the prefix";
                return Err(Error::new(ErrorKind::InvalidInput, message)
                    .with("key", key)
                    .with("type", held));
            }
            return Ok(Some(format!("{}: {}", place.state, odd(&key, &held))));
        }
        Ok(None)
    }

    /// The jobs of a place from that one on, the next one first.
    pub(super) async fn page(
        &self,
        connection: &mut Connection,
        place: &Place,
        from: usize,
    ) -> Result<Vec<Listed>> {
        let (first, last) = (from as i64, (from + PAGE) as i64 - 1);
        let key = &place.key;
        let mut command;
        let items: Vec<(Bytes, Bytes, Option<f64>)> = match place.shape {
            Shape::Head | Shape::Tail => {
                command = redis::cmd("LRANGE");
                match place.shape {
                    Shape::Head => command.arg(key).arg(first).arg(last),
                    _ => command.arg(key).arg(-last - 1).arg(-first - 1),
                };
                let mut items: Vec<Vec<u8>> = connection.ask(&command).await?;
                if place.shape == Shape::Tail {
                    items.reverse();
                }
                let items = items.into_iter().map(Bytes::from);
                items.map(|item| (item.clone(), item, None)).collect()
            }
            Shape::Sorted => {
                command = redis::cmd("ZRANGE");
                command.arg(key).arg(first).arg(last).arg("WITHSCORES");
                let flat: Vec<Vec<u8>> = connection.ask(&command).await?;
                let pairs = flat.chunks_exact(2).map(|pair| {
                    let item = Bytes::copy_from_slice(&pair[0]);
                    let score = std::str::from_utf8(&pair[1])
                        .ok()
                        .and_then(|t| t.parse().ok());
                    (item.clone(), item, score)
                });
                pairs.collect()
            }
            Shape::Held => {
                command = redis::cmd("ZRANGE");
                command.arg(format!("{key}_index")).arg(first).arg(last);
                let tags: Vec<Vec<u8>> = connection.ask(&command).await?;
                if tags.is_empty() {
                    return Ok(Vec::new());
                }
                let mut read = redis::cmd("HMGET");
                read.arg(key).arg(&tags);
                let items: Vec<Option<Vec<u8>>> = connection.ask(&read).await?;
                let items = tags.into_iter().zip(items);
                let there = items.map(|(tag, item)| {
                    (
                        Bytes::from(tag),
                        Bytes::from(item.unwrap_or_default()),
                        None,
                    )
                });
                there.collect()
            }
        };
        self.listed(connection, place, items).await
    }

    async fn listed(
        &self,
        connection: &mut Connection,
        place: &Place,
        items: Vec<(Bytes, Bytes, Option<f64>)>,
    ) -> Result<Vec<Listed>> {
        let mut listed = Vec::with_capacity(items.len());
        let mut keys = Vec::new();
        for (handle, item, score) in items {
            let name = self.format.name(&item);
            keys.extend(self.format.hash_key(&name));
            let found = Found {
                state: place.state,
                item,
                score,
                fields: Default::default(),
                is_odd: None,
                taken_at: None,
            };
            listed.push(Listed {
                name,
                handle,
                found,
            });
        }
        if keys.is_empty() {
            return Ok(listed);
        }
        let mut types = redis::pipe();
        for key in &keys {
            types.cmd("TYPE").arg(key);
        }
        let types: Vec<String> = connection.ask_all(&types).await?;
        let (mut hashes, mut calls) = (Vec::new(), redis::pipe());
        for ((one, key), held) in listed.iter_mut().zip(&keys).zip(types) {
            if held == "hash" {
                calls.cmd("HGETALL").arg(key);
                hashes.push(&mut one.found.fields);
            } else if held != "none" {
                one.found.is_odd = Some(odd(key, &held));
            }
        }
        if !hashes.is_empty() {
            type Hash = std::collections::HashMap<String, Vec<u8>>;
            let read: Vec<Hash> = connection.ask_all(&calls).await?;
            for (fields, hash) in hashes.into_iter().zip(read) {
                *fields = hash.into_iter().map(|(k, v)| (k, v.into())).collect();
            }
        }
        self.find_related(connection, &mut listed).await?;
        Ok(listed)
    }

    /// Marks jobs with keys beside them that keep them there.
    async fn find_related(&self, connection: &mut Connection, listed: &mut [Listed]) -> Result<()> {
        let (mut calls, mut asked) = (redis::pipe(), Vec::new());
        for (at, one) in listed.iter().enumerate() {
            for (key, why) in self.format.related(&one.name) {
                calls.cmd("EXISTS").arg(key);
                asked.push((at, why));
            }
        }
        if asked.is_empty() {
            return Ok(());
        }
        let found: Vec<bool> = connection.ask_all(&calls).await?;
        for ((at, why), _) in asked.into_iter().zip(found).filter(|(_, found)| *found) {
            listed[at]
                .found
                .is_odd
                .get_or_insert_with(|| why.to_owned());
        }
        Ok(())
    }

    async fn count(&self, connection: &mut Connection, place: &Place) -> Result<u64> {
        let mut command = redis::cmd(match place.shape {
            Shape::Head | Shape::Tail => "LLEN",
            Shape::Sorted => "ZCARD",
            Shape::Held => "HLEN",
        });
        command.arg(&place.key);
        connection.ask(&command).await
    }
}

/// The number of a reason; what is over the bound shares one.
pub(super) fn entry<T: Default>(stays: &mut BTreeMap<String, T>, why: String) -> &mut T {
    let is_named = stays.len() < REASONS_MAX || stays.contains_key(&why);
    let why = match is_named {
        true => why,
        false => "for further reasons".to_owned(),
    };
    stays.entry(why).or_default()
}

/// What is wrong with a key of another type.
fn odd(key: &str, held: &str) -> String {
    format!("its key {key} holds a {held}, not what the library writes")
}

/// The reason for which a place stays.
fn stays_as(place: &Place) -> String {
    format!("{}: {}", place.state, place.stays.unwrap_or_default())
}

fn in_words(job: &NewJob, name: &str) -> String {
    let due = match job.due {
        punctual::Due::At(due) => format!(" due {due}"),
        _ => String::new(),
    };
    let end = job.payload.len().min(PREVIEW);
    let payload = String::from_utf8_lossy(&job.payload[..end]);
    format!("{name} {}{due} {payload}", job.kind)
}
