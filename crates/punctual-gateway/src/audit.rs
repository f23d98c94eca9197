//! The audit record: every edit and control, written before it is made and after.

mod entry;
mod file;

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use punctual::engine::{Control, Controlled, Edit, Edited};
use punctual::sync::Lock;
use punctual::{Engine, Error, ErrorKind, Namespace, Result};

pub use self::entry::Entry;
use self::file::AuditFile;
use crate::http::Caller;

/// Entries of one namespace.
const ENTRIES_MAX: usize = 1_000;
/// Those of all: callers without a token may name any namespace.
const ALL_ENTRIES_MAX: usize = 16_000;

/// The record of what was changed, and by whom: the last thousand changes of each namespace, and a
/// file if one is named.
#[derive(Debug, Default)]
pub struct Audit(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// By namespace, each with its place in the whole, the latest last.
    entries: HashMap<String, VecDeque<(u64, Entry)>>,
    /// How many there are.
    count: usize,
    /// How many were ever written.
    written: u64,
    file: Option<AuditFile>,
}

impl Audit {
    /// Keeps it in a file too, a line of JSON before each change and one after, and goes on with
    /// what is in there. Beyond 4 MiB the file becomes `FILE.1`, and what was that is gone.
    pub fn in_file(path: &Path) -> Result<Self> {
        let unread = |error| {
            let message = "the audit record cannot be written to this file; name another one";
            Error::new(ErrorKind::Io, message)
                .with("file", path.display())
                .source(error)
        };
        let (file, earlier) = AuditFile::open(path).map_err(unread)?;
        let mut kept = Kept {
            file: Some(file),
            ..Kept::default()
        };
        earlier.into_iter().for_each(|entry| kept.keep(entry));
        Ok(Self(Mutex::new(kept)))
    }

    /// Makes an edit as `local`, on the record unless it is a dry run: for a process that changes
    /// jobs in a directory without a gateway.
    pub async fn edit(
        &self,
        engine: &dyn Engine,
        namespace: &Namespace,
        edit: Edit,
    ) -> Result<Edited> {
        let caller = Caller::local(namespace.clone());
        self.edit_as(engine, &caller, edit).await
    }

    /// Makes a control as `local`, on the record if it changes something.
    pub async fn control(
        &self,
        engine: &dyn Engine,
        namespace: &Namespace,
        control: Control,
    ) -> Result<Controlled> {
        let caller = Caller::local(namespace.clone());
        self.control_as(engine, &caller, control).await
    }

    pub(crate) async fn edit_as(
        &self,
        engine: &dyn Engine,
        caller: &Caller,
        edit: Edit,
    ) -> Result<Edited> {
        let entry = (!edit.dry_run).then(|| Entry::of_edit(caller, &edit));
        let editing = engine.edit(&caller.namespace, edit);
        self.recorded(entry, editing, |edited| edited.matched as u64)
            .await
    }

    pub(crate) async fn control_as(
        &self,
        engine: &dyn Engine,
        caller: &Caller,
        control: Control,
    ) -> Result<Controlled> {
        let entry = Entry::of_control(caller, &control);
        let controlling = engine.control(&caller.namespace, control);
        self.recorded(entry, controlling, |controlled| match controlled {
            Controlled::Purged { matched, .. } => *matched as u64,
            Controlled::Done(changed) => u64::from(*changed),
            _ => 1,
        })
        .await
    }

    /// Makes a change between its two entries.
    async fn recorded<T>(
        &self,
        entry: Option<Entry>,
        change: impl Future<Output = Result<T>>,
        matched: impl FnOnce(&T) -> u64,
    ) -> Result<T> {
        let Some(mut entry) = entry else {
            return change.await;
        };
        self.write(&entry);
        let changed = change.await;
        match &changed {
            Ok(answer) => entry.done(matched(answer)),
            Err(error) => entry.failed(error.kind().code()),
        }
        self.write(&entry);
        changed
    }

    /// What is on record in a file and the older one beside it, the latest first; nothing if
    /// neither is there.
    pub fn read(path: &Path) -> Result<Vec<Entry>> {
        let mut kept = Kept::default();
        let entries = AuditFile::read(path).map_err(|error| {
            let message = "the audit record cannot be read";
            Error::new(ErrorKind::Io, message)
                .with("file", path.display())
                .source(error)
        })?;
        entries.into_iter().for_each(|entry| kept.keep(entry));
        Ok(kept.into_entries())
    }

    /// The latest of a namespace first.
    pub(crate) fn of(&self, namespace: &Namespace, limit: usize) -> Vec<Entry> {
        let kept = self.kept();
        let theirs = kept.entries.get(namespace.as_str());
        let latest = theirs.into_iter().flat_map(|theirs| theirs.iter().rev());
        let latest = latest.map(|(_, entry)| entry.clone());
        latest.take(limit).collect()
    }

    fn write(&self, entry: &Entry) {
        tracing::info!(
            target: "punctual::audit", who = entry.who, namespace = entry.namespace,
            action = entry.action, on = %entry.on, phase = entry.phase, matched = entry.matched, "audit"
        );
        let mut kept = self.kept();
        kept.keep(entry.clone());
        if let Some(file) = &mut kept.file
            && let Err(error) = file.write(entry)
        {
            // The change is made all the same: a full disk shall not keep a person from deleting.
            tracing::error!(%error, "an audit entry could not be written to the file");
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.locked()
    }
}

impl Kept {
    /// The second entry of a change takes the place of its first.
    fn keep(&mut self, entry: Entry) {
        self.written += 1;
        let order = self.written;
        let theirs = self.entries.entry(entry.namespace.clone()).or_default();
        let mut latest = theirs.iter_mut().rev();
        if let Some((_, earlier)) = latest.find(|(_, earlier)| earlier.id == entry.id) {
            *earlier = entry;
            return;
        }
        theirs.push_back((order, entry));
        self.count += 1;
        if theirs.len() > ENTRIES_MAX {
            drop_one(theirs);
            self.count -= 1;
        } else if self.count > ALL_ENTRIES_MAX {
            // The caller with the most gives one up: no caller pushes out those of one with less.
            let most = self.entries.values_mut().max_by_key(|theirs| theirs.len());
            most.into_iter().for_each(drop_one);
            self.entries.retain(|_, theirs| !theirs.is_empty());
            self.count -= 1;
        }
    }

    /// Of all namespaces, the latest first.
    fn into_entries(self) -> Vec<Entry> {
        let mut entries: Vec<_> = self.entries.into_values().flatten().collect();
        entries.sort_unstable_by_key(|(order, _)| std::cmp::Reverse(*order));
        entries.into_iter().map(|(_, entry)| entry).collect()
    }
}

/// The oldest that changed nothing, or else the oldest: many of those hide no change.
fn drop_one(entries: &mut VecDeque<(u64, Entry)>) {
    let idle = entries
        .iter()
        .position(|(_, entry)| entry.matched == Some(0));
    entries.remove(idle.unwrap_or(0));
}

#[cfg(test)]
mod tests;
