//! The maps of guarded effects, and of copies of a record in other shards.

use bytes::Bytes;
use punctual::engine::{EnqueueVerdict, Guard, RecordValue, VersionedRecord};
use punctual::{Effect, Result};

use super::mp::{MapWriter, Mp};
use super::numbers::{CONTROL_COPY, CONTROL_GUARDED, CONTROL_VERSION};
use super::settle::{Posted, Whither, effect_verdict, packed_effect};
use super::{Reader, control};

/// What a guarded call answered.
pub(crate) enum Answer {
    /// The record has another version.
    Conflict(Option<VersionedRecord>),
    /// Its version, a verdict per effect, and which of them are on their way to other shards.
    Done(u64, Vec<Option<EnqueueVerdict>>, Vec<Posted>),
}

pub(crate) fn request(
    guard: &Guard,
    value: Option<&RecordValue>,
    effects: &[Effect],
    whither: impl Fn(&Effect) -> Whither,
) -> MapWriter {
    let nonce = uuid::Uuid::new_v4();
    let packed = effects.iter().enumerate().map(|(index, effect)| {
        let (kind, body) = packed_effect(effect, &whither(effect), index);
        Mp::List(vec![kind.into(), Mp::Bytes(body)])
    });
    let mut map = MapWriter::default();
    map.put("c", CONTROL_GUARDED)
        .put("na", guard.record.as_str());
    map.put("ex", guard.version);
    map.put("no", nonce.as_bytes().as_slice());
    map.put("ef", packed.collect::<Vec<_>>());
    map.put_some(
        "v",
        value.map(|value| control::packed(&guard.record, value)),
    );
    map
}

pub(crate) fn answer(reply: &Mp, effects: usize) -> Result<Answer> {
    let version = reply.get("ve").number()?;
    if reply.get("gc").is_set() {
        let value = reply
            .get("v")
            .some(|value| control::unpacked(value.bytes()?))?;
        let record = value.map(|value| VersionedRecord::new(version, value));
        return Ok(Answer::Conflict(record));
    }
    let mut reader = Reader(reply.get("vs").bytes()?);
    let mut posted = Vec::new();
    let verdicts = (0..effects).map(|effect| {
        let post = |entry| {
            posted.push(Posted {
                lease: 0,
                settlement: 0,
                effect,
                entry,
            });
        };
        effect_verdict(&mut reader, post)
    });
    let verdicts = verdicts.collect::<Result<_>>()?;
    reader.end()?;
    Ok(Answer::Done(version, verdicts, posted))
}

/// A record of the first shard with its version there, for another shard; in the place of `lost`, a
/// version that the first shard does not know any more.
pub(crate) fn copy(name: &str, version: u64, value: &Bytes, lost: Option<u64>) -> MapWriter {
    let value = RecordValue::Opaque(value.clone());
    let mut map = MapWriter::default();
    map.put("c", CONTROL_COPY)
        .put("na", name)
        .put("ve", version);
    map.put("v", control::packed(name, &value));
    map.put_some("ex", lost);
    map
}

/// Asks for the version of a record only.
pub(crate) fn version(name: &str) -> MapWriter {
    let mut map = MapWriter::default();
    map.put("c", CONTROL_VERSION).put("na", name);
    map
}

pub(crate) fn versioned(reply: &Mp) -> Result<u64> {
    reply.get("ve").number()
}
