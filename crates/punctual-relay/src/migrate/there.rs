//! What must be so before anything is taken or put back: the queue is there, a pause holds here
//! too, and the engine is the one of the runs before.

use bytes::Bytes;
use punctual::engine::{Control, Controlled, RecordValue, StatsRequest};
use punctual::{Error, ErrorKind, Namespace, Queue, Result};

use super::Migration;
use super::found::Shape;
use super::parking::Parking;
use crate::redis::Connection;

/// Names of queues that an error shows.
const SHOWN: usize = 20;

impl Migration {
    /// Refuses a queue of which there is no trace: its name is most likely mistyped.
    pub(super) async fn check_known(&self, connection: &mut Connection) -> Result<()> {
        if self.is_known(connection).await? {
            return Ok(());
        }
        let plan = self.read_plan(connection).await?;
        match plan.takes.is_empty() && plan.stays.is_empty() {
            true => Err(self.no_such_queue(connection).await),
            false => Ok(()),
        }
    }

    /// Whether the library lists the queue, a key of its own has jobs, or a migration of it has
    /// run.
    pub(super) async fn is_known(&self, connection: &mut Connection) -> Result<bool> {
        if Parking::has_begun(connection, &self.key).await? {
            return Ok(true);
        }
        for place in self.places.iter().filter(|place| place.is_own) {
            let mut command = redis::cmd("EXISTS");
            if connection.ask(command.arg(&place.key)).await? {
                return Ok(true);
            }
        }
        let queues = self.format.queues(connection).await?;
        Ok(queues.contains(&self.queue))
    }

    pub(super) async fn no_such_queue(&self, connection: &mut Connection) -> Error {
        let mut queues = self.format.queues(connection).await.unwrap_or_default();
        queues.sort();
        let more = queues.len().saturating_sub(SHOWN);
        queues.truncate(SHOWN);
        let mut there = queues.join(", ");
        if more > 0 {
            there += &format!(" and {more} more");
        }
        if there.is_empty() {
            there += "none";
        }
        let message =
            "no such queue; check the queue and the prefix, and the number of the database";
        Error::new(ErrorKind::NotFound, message)
            .with("queue", &self.queue)
            .with("queues there", there)
    }

    /// Jobs of a paused queue must not start here: they wait if the queue here is paused too.
    pub(super) async fn check_pause(
        &self,
        connection: &mut Connection,
        (queue, namespace): (&Queue, &Namespace),
    ) -> Result<()> {
        if !self.format.is_paused(connection).await? {
            return Ok(());
        }
        let request = StatsRequest::default().queues(vec![self.into.clone()]);
        let stats = queue.engine().stats(namespace, request).await?;
        if stats.queues.iter().any(|one| one.paused) {
            return Ok(());
        }
        let message = "the queue is paused over there, and its jobs would start here; pause the queue \
                       here too, by `punctual queues pause`, or resume it there";
        Err(Error::new(ErrorKind::InvalidInput, message).with("queue", &self.into))
    }

    /// Binds the parked jobs to this engine and namespace, by a record there; refuses another one
    /// while jobs are parked: an undo there would not find them, and a second run would store them
    /// twice.
    pub(super) async fn bind(
        &self,
        parking: &mut Parking,
        (queue, namespace): (&Queue, &Namespace),
    ) -> Result<()> {
        let name = format!("migration/{}", parking.identity);
        let read = Control::Read { name: name.clone() };
        let read = queue.engine().control(namespace, read).await?;
        let is_here = matches!(read, Controlled::Record(Some(_)));
        let bound = parking.bound().await?;
        match (bound, is_here) {
            (Some(_), true) => return Ok(()),
            (Some(bound), false) if parking.has_jobs().await? => {
                let message = "jobs of this queue went into another engine or namespace, and are parked \
                               for an undo; use that one, or undo it there first";
                return Err(Error::new(ErrorKind::InvalidInput, message)
                    .with("they went into", bound)
                    .with("namespace", namespace));
            }
            _ => {}
        }
        if !is_here {
            let write = Control::Write {
                name,
                expected: 0,
                value: Some(RecordValue::Opaque(Bytes::from(self.source.clone()))),
            };
            match queue.engine().control(namespace, write).await {
                Ok(_) => {}
                // A run that was killed here wrote it.
                Err(error) if error.kind() == ErrorKind::VersionConflict => {}
                Err(error) => return Err(error),
            }
        }
        let bound = format!("the queue {} of the namespace {namespace}", self.into);
        parking.bind(&bound).await
    }
}

/// The names that match a pattern, without what is in front and behind.
pub(super) async fn names_like(
    connection: &mut Connection,
    (before, after): (&str, &str),
) -> Result<Vec<String>> {
    // What is a sign of patterns stands for itself.
    let mut pattern = String::new();
    for c in before.chars() {
        if "*?[]\\".contains(c) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    let (mut names, mut cursor) = (Vec::new(), 0_u64);
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor)
            .arg("MATCH")
            .arg(format!("{pattern}*{after}"));
        scan.arg("COUNT").arg(1_000);
        let (next, keys): (u64, Vec<Vec<u8>>) = connection.ask(&scan).await?;
        let keys = keys
            .into_iter()
            .filter_map(|key| String::from_utf8(key).ok());
        names.extend(keys.filter_map(|key| {
            let name = key.strip_prefix(before)?.strip_suffix(after)?;
            Some(name.to_owned())
        }));
        cursor = next;
        if cursor == 0 || names.len() > 10_000 {
            names.sort();
            names.dedup();
            return Ok(names);
        }
    }
}

/// The members of a set of names.
pub(super) async fn names_in(connection: &mut Connection, key: &str) -> Result<Vec<String>> {
    let mut command = redis::cmd("TYPE");
    let held: String = connection.ask(command.arg(key)).await?;
    if held != "set" {
        return Ok(Vec::new());
    }
    let mut command = redis::cmd("SMEMBERS");
    connection.ask(command.arg(key)).await
}

/// Whether a place is of one queue: what several share says nothing of one.
pub(super) fn is_own(shape: Shape, state: &str) -> bool {
    shape != Shape::Held && !["schedule", "retry", "dead"].contains(&state)
}
