//! The packed form of an extend.

use punctual::Result;
use punctual::engine::{Extend, ExtendVerdict, Extended};

use super::mp::Mp;
use super::{CALL_US, Instance, Reader, Writer, damaged, micros};

/// In the length of a note: it is lines to log, as a packed list.
const LINES: usize = 1 << 31;

/// In the same: it is a memo, as a packed list of its name and value.
const MEMO: usize = 1 << 30;

/// Lines to log, as a list.
pub(super) fn packed_lines(lines: &[String]) -> Vec<u8> {
    let mut out = Vec::new();
    Mp::List(lines.iter().map(Mp::from).collect()).write(&mut out);
    out
}

pub(crate) fn request(instance: Instance, leases: &[&Extend]) -> Vec<u8> {
    let mut out = Writer::default();
    out.bytes(&instance).u16(leases.len());
    for lease in leases {
        out.token(lease.token).u64(micros(lease.lease_duration));
        out.u16(lease.progress.len() + lease.log.len() + lease.memos.len());
        for (id, progress) in &lease.progress {
            out.id(*id).long(progress);
        }
        for (id, lines) in &lease.log {
            let lines = packed_lines(lines);
            out.id(*id).u32(LINES | lines.len()).bytes(&lines);
        }
        for (id, name, value) in &lease.memos {
            let mut memo = Vec::new();
            Mp::List(vec![name.into(), Mp::from(value.as_ref())]).write(&mut memo);
            out.id(*id).u32(MEMO | memo.len()).bytes(&memo);
        }
        out.u16(lease.jobs.len());
        for id in &lease.jobs {
            out.id(*id);
        }
    }
    out.0
}

/// About how long the call keeps the server, in microseconds.
pub(crate) fn cost_us(leases: &[&Extend]) -> usize {
    let cost = |lease: &&Extend| {
        let notes = lease.progress.len() + lease.log.len() + lease.memos.len();
        CALL_US + 20 * notes + lease.jobs.len()
    };
    leases.iter().map(cost).sum()
}

pub(crate) fn reply(bytes: &[u8], leases: usize) -> Result<Extended> {
    let mut reader = Reader(bytes);
    let now = reader.instant()?;
    let verdicts: Result<_> = (0..leases).map(|_| verdict(&mut reader)).collect();
    let verdicts = verdicts?;
    reader.end()?;
    Ok(Extended::new(verdicts, now))
}

fn verdict(reader: &mut Reader<'_>) -> Result<ExtendVerdict> {
    match reader.u8()? {
        0 => Ok(ExtendVerdict::LeaseLost),
        1 => Ok(ExtendVerdict::Extended {
            deadline: reader.instant()?,
            lost: reader.ids()?,
            cancel_requested: reader.ids()?,
        }),
        _ => Err(damaged()),
    }
}
