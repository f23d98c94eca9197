use punctual::engine::{Claim, ClaimOrder, Claimed, Page, Token, WorkerId, WorkerRecord};
use punctual::{JobId, Result, State};

use super::mp::{MapWriter, Mp};
use super::record::{Holder, number_32, read_record, texts};
use super::{Instance, Reader, Writer, damaged, micros};

/// The bits of a claim's flags.
const ALONE: u8 = 1;
const IN_TURNS: u8 = 2;
const WOKEN: u8 = 4;

pub(crate) fn request(instance: Instance, claim: &Claim, woken: bool) -> Vec<u8> {
    let mut flags = 0;
    for (set, bit) in [
        (claim.alone, ALONE),
        (claim.order == ClaimOrder::Turns, IN_TURNS),
        (woken, WOKEN),
    ] {
        flags |= if set { bit } else { 0 };
    }
    let mut out = Writer::default();
    out.bytes(&instance);
    out.u64(claim.nonce);
    out.bytes(&claim.worker.id.0.to_be_bytes());
    out.u64(micros(claim.lease));
    out.u16(claim.limit);
    out.u32(claim.max_bytes);
    out.u8(flags).u8(claim.queues.len() as u8);
    for queue in &claim.queues {
        out.name(queue);
    }
    out.bytes(&worker_record(&claim.worker));
    out.0
}

fn worker_record(worker: &WorkerRecord) -> Vec<u8> {
    let names = |names: &[String]| names.iter().map(Mp::from).collect::<Vec<_>>();
    let mut map = MapWriter::default();
    map.put("h", &worker.host);
    map.put("v", &worker.version);
    map.put("q", names(&worker.queues));
    map.put("k", names(&worker.kinds));
    map.put("s", worker.slots);
    map.put("b", worker.busy);
    map.packed()
}

/// What a worker said of itself.
pub(super) fn read_worker(id: WorkerId, bytes: &[u8]) -> Result<WorkerRecord> {
    let map = Mp::read(bytes)?;
    Ok(WorkerRecord {
        id,
        host: map.get("h").text()?,
        version: map.get("v").text()?,
        queues: texts(map.get("q"))?,
        kinds: texts(map.get("k"))?,
        slots: number_32(map.get("s"))?,
        busy: number_32(map.get("b"))?,
    })
}

/// The notes of each page of an answer.
pub(crate) type PageNotes = Vec<(Token, Vec<Note>)>;

/// What is claimed, and what is to be remembered of it.
pub(crate) fn reply(bytes: &[u8], worker: WorkerId) -> Result<(Claimed, PageNotes)> {
    let mut reader = Reader(bytes);
    let now = reader.instant()?;
    let wake_at = reader.some_instant()?;
    let flags = reader.u8()?;
    let pages = reader.u8()?;
    let mut notes = Vec::new();
    let pages = (0..pages).map(|_| page(&mut reader, worker, &mut notes));
    let claimed = Claimed {
        pages: pages.collect::<Result<_>>()?,
        now,
        wake_at,
        suspects: flags & 1 != 0,
    };
    reader.end()?;
    Ok((claimed, notes))
}

/// `token | deadline | started | count | ids | lengths | records`
fn page(reader: &mut Reader<'_>, worker: WorkerId, notes: &mut PageNotes) -> Result<Page> {
    let token = reader.token()?;
    let deadline = reader.instant()?;
    let started = reader.instant()?;
    let ids = reader.ids()?;
    let lengths: Result<Vec<usize>> = ids.iter().map(|_| reader.u32()).collect();
    let holder = Holder {
        worker,
        started,
        deadline,
    };
    let mut jobs = Vec::with_capacity(ids.len());
    let mut noted = Vec::with_capacity(ids.len());
    for (id, length) in ids.into_iter().zip(lengths?) {
        let record = reader.take(length)?;
        noted.push(note_of(id, record)?);
        jobs.push(read_record(id, State::Active, Some(holder), record)?);
    }
    notes.push((token, noted));
    Ok(Page {
        token,
        deadline,
        jobs,
    })
}

/// Due and hash of a claimed job as they stand in its record: a settle that tells them saves the
/// server a look at it.
pub(crate) type Note = (JobId, [u8; 16]);

fn note_of(id: JobId, record: &[u8]) -> Result<Note> {
    let note = record.get(11..27).and_then(|note| note.try_into().ok());
    Ok((id, note.ok_or_else(damaged)?))
}
