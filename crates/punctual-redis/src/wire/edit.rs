//! The map of an edit.

use punctual::engine::{Action, Edit, EditVerdict, Edited, Filter, Target};
use punctual::{JobId, Result};

use super::mp::{MapWriter, Mp, read_instant};
use super::numbers::{
    EDIT_CANCEL, EDIT_DELETE, EDIT_PAYLOAD, EDIT_REDRIVE, EDIT_REPRIORITISE, EDIT_RESCHEDULE,
    EDIT_RUN_NOW, EDIT_SIGNAL,
};
use super::spec::due_of;
use super::{damaged, inspect};

pub(crate) fn of_targets(edit: &Edit, targets: &[&Target]) -> MapWriter {
    let mut map = of_action(edit);
    map.put("t", inspect::targets(targets));
    map
}

pub(crate) fn of_filter(
    edit: &Edit,
    filter: &Filter,
    cursor: Option<&[u8]>,
    limit: usize,
) -> MapWriter {
    let mut map = of_action(edit);
    map.put("f", inspect::filter(filter).unwrap_or(Mp::Map(Vec::new())));
    map.put_some("cu", cursor);
    map.put("li", limit);
    map
}

fn of_action(edit: &Edit) -> MapWriter {
    let mut map = MapWriter::default();
    let number: u8 = match &edit.action {
        Action::Cancel => EDIT_CANCEL,
        Action::Reschedule(due) => {
            let (kind, value) = due_of(*due);
            map.put("dk", kind).put("v", value.to_be_bytes().as_slice());
            EDIT_RESCHEDULE
        }
        Action::RunNow => EDIT_RUN_NOW,
        Action::Reprioritise(priority) => {
            map.put("v", *priority);
            EDIT_REPRIORITISE
        }
        Action::Redrive => EDIT_REDRIVE,
        Action::UpdatePayload(payload) => {
            map.put("p", payload.as_ref());
            EDIT_PAYLOAD
        }
        Action::Signal { name, payload } => {
            map.put("na", name).put("p", payload.as_ref());
            EDIT_SIGNAL
        }
        // The last that there is: the contract and this crate are of one version.
        _ => EDIT_DELETE,
    };
    map.put("a", number);
    if edit.dry_run {
        map.put("d", 1_u8);
    }
    map
}

pub(crate) fn reply(reply: &Mp) -> Result<Edited> {
    let verdicts = reply.get("v").list()?.iter().map(verdict);
    let mut edited = Edited::new(read_instant(reply.get("n"))?);
    edited.verdicts = verdicts.collect::<Result<_>>()?;
    edited.examined = reply.get("ex").number()? as usize;
    edited.matched = reply.get("ma").number()? as usize;
    edited.cursor = inspect::cursor(reply)?;
    Ok(edited)
}

/// `[id or "", verdict, state or id]`
fn verdict(value: &Mp) -> Result<(Option<JobId>, EditVerdict)> {
    let parts = value.list()?;
    let at = |index: usize| parts.get(index).ok_or_else(damaged);
    let id = match at(0)?.bytes()? {
        [] => None,
        _ => Some(inspect::id(at(0)?)?),
    };
    let verdict = match at(1)?.number()? {
        0 => EditVerdict::Done(inspect::state(at(2)?)?),
        1 => EditVerdict::CancelRequested,
        2 => EditVerdict::NotFound,
        3 => EditVerdict::JobActive,
        4 => EditVerdict::WrongState(inspect::state(at(2)?)?),
        5 => EditVerdict::UniqueHeld(inspect::id(at(2)?)?),
        6 => EditVerdict::AlreadyCancelled,
        7 => EditVerdict::WaitEnded,
        8 => EditVerdict::SignalsFull,
        _ => return Err(damaged()),
    };
    Ok((id, verdict))
}
