//! Who changed what: every edit and every control, written down before it is made and after.

mod entry;
mod file;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use punctual::engine::{Control, Controlled, Edit, Edited};
use punctual::{Engine, Error, ErrorKind, Namespace, Result};

pub use self::entry::Entry;
use self::file::AuditFile;
use crate::access::Caller;
use crate::state::Shared;

/// Entries that are answered.
const ENTRIES_MAX: usize = 1_000;

/// The record of what was changed, and by whom: the last thousand changes, and a file if one is named.
#[derive(Debug, Default)]
pub struct Audit(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// The latest last.
    entries: VecDeque<Entry>,
    file: Option<AuditFile>,
}

impl Audit {
    /// Keeps it in a file too, a line of JSON before each change and one after, and goes on with what
    /// is in there. Beyond 4 MiB the file becomes `FILE.1`, and what was that is gone.
    pub fn in_file(path: &Path) -> Result<Self> {
        let unread = |error| {
            let message = "the audit record cannot be kept there; name another file";
            Error::new(ErrorKind::Io, message)
                .with("file", path.display())
                .source(error)
        };
        let (file, earlier) = AuditFile::open(path).map_err(unread)?;
        let mut kept = Kept {
            file: Some(file),
            ..Kept::default()
        };
        earlier.into_iter().for_each(|entry| kept.remember(entry));
        Ok(Self(Mutex::new(kept)))
    }

    /// Makes an edit as `local`, on the record unless it is a dry run: for who changes jobs in a
    /// directory without a gateway.
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

    /// What is on record in a file and the older one beside it, the latest first; nothing if neither
    /// is there.
    pub fn read(path: &Path) -> Result<Vec<Entry>> {
        let mut kept = Kept::default();
        let entries = AuditFile::read(path).map_err(|error| {
            let message = "the audit record cannot be read";
            Error::new(ErrorKind::Io, message)
                .with("file", path.display())
                .source(error)
        })?;
        entries.into_iter().for_each(|entry| kept.remember(entry));
        Ok(kept.entries.into_iter().rev().collect())
    }

    /// The latest of a namespace first.
    pub(crate) fn of(&self, namespace: &Namespace, limit: usize) -> Vec<Entry> {
        let kept = self.kept();
        let latest = kept.entries.iter().rev();
        let theirs = latest.filter(|entry| entry.namespace == namespace.as_str());
        theirs.take(limit).cloned().collect()
    }

    fn write(&self, entry: &Entry) {
        tracing::info!(
            target: "punctual::audit", who = entry.who, namespace = entry.namespace,
            action = entry.action, on = %entry.on, phase = entry.phase, matched = entry.matched, "audit"
        );
        let mut kept = self.kept();
        kept.remember(entry.clone());
        if let Some(file) = &mut kept.file
            && let Err(error) = file.write(entry)
        {
            // The change is made all the same: a full disk shall not keep a person from deleting.
            tracing::error!(%error, "an entry of the audit record was not kept in its file");
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// The second entry of a change takes the place of its first.
    fn remember(&mut self, entry: Entry) {
        let mut latest = self.entries.iter_mut().rev();
        match latest.find(|earlier| earlier.id == entry.id) {
            Some(earlier) => *earlier = entry,
            None => {
                if self.entries.len() == ENTRIES_MAX {
                    self.entries.pop_front();
                }
                self.entries.push_back(entry);
            }
        }
    }
}

/// Makes an edit for a caller of the gateway.
pub(crate) async fn edit(shared: &Shared, caller: &Caller, edit: Edit) -> Result<Edited> {
    let engine = &*shared.engine;
    shared.audit.edit_as(engine, caller, edit).await
}

/// Makes a control for a caller of the gateway.
pub(crate) async fn control(
    shared: &Shared,
    caller: &Caller,
    control: Control,
) -> Result<Controlled> {
    let engine = &*shared.engine;
    shared.audit.control_as(engine, caller, control).await
}

#[cfg(test)]
mod tests;
