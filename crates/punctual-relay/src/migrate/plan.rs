//! What a migration would do: it only reads.

use std::collections::BTreeMap;

use bytes::Bytes;
use punctual::{JobId, Limits, NewJob, Result};

use super::Migration;
use super::found::{Found, Place, Read, Shape};
use crate::redis::Connection;

/// Jobs that one call reads.
pub(super) const PAGE: usize = 500;
/// Jobs of a state, and names of a reason, that are shown.
const SHOWN: usize = 3;
/// Kinds that are told apart.
const KINDS_MAX: usize = 200;
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
        let mut plan = Plan {
            version: self.format.check(&mut connection).await?,
            ..Plan::default()
        };
        for place in &self.places {
            let mut from = 0;
            loop {
                let page = self.page(&mut connection, place, from).await?;
                if page.is_empty() {
                    break;
                }
                from += page.len();
                for listed in &page {
                    self.add(&mut plan, place, listed);
                }
                // What stays is counted, and not read to its end.
                if place.stays.is_some() {
                    let all = self.count(&mut connection, place).await?;
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
                let stays = plan.stays.entry(why).or_default();
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
        match self.format.read(found) {
            Read::OfAnother => Ok(None),
            Read::Stays(why) => Err(why),
            Read::Job(foreign) => {
                let job = foreign.into_job(id, &self.into, &self.source, name);
                match job.check(&Limits::default()) {
                    Ok(()) => Ok(Some(job)),
                    Err(error) => Err(error.message().to_owned()),
                }
            }
        }
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
        let mut calls = redis::pipe();
        for (handle, item, score) in items {
            let name = self.format.name(&item);
            if let Some(key) = self.format.hash_key(&name) {
                calls.cmd("HGETALL").arg(key);
            }
            let found = Found {
                state: place.state,
                item,
                score,
                fields: Default::default(),
            };
            listed.push(Listed {
                name,
                handle,
                found,
            });
        }
        if self.format.hash_key("").is_some() && !listed.is_empty() {
            type Hash = std::collections::HashMap<String, Vec<u8>>;
            let hashes: Vec<Hash> = connection.ask_all(&calls).await?;
            for (one, hash) in listed.iter_mut().zip(hashes) {
                one.found.fields = hash.into_iter().map(|(k, v)| (k, v.into())).collect();
            }
        }
        Ok(listed)
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
