//! Ids of jobs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::bounds::TEXT_JOB_ID;
use crate::error::{Error, ErrorKind, Result};
use crate::time::Timestamp;

/// The name of a job: any UUID. The library makes version 7 before the first send, so that a
/// retried enqueue is recognised as a duplicate. Ids order nothing.
///
/// ```
/// use punctual::JobId;
///
/// let id = JobId::new();
/// assert_eq!(id.to_string().parse::<JobId>()?, id);
/// # Ok::<(), punctual::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobId(Uuid);

/// Bits 64 and up of a version 7 id are random; ten of them name the shard.
const SHARD_SHIFT: u32 = 52;
const SHARD_MASK: u128 = 0x3ff << SHARD_SHIFT;

/// The form of an id of version 8, in its first byte: derived from a name by the caller that
/// enqueues it.
const FORM_DERIVED: u8 = 1;
/// The run of a schedule.
const FORM_OCCURRENCE: u8 = 2;
/// The step of a flow.
const FORM_STEP: u8 = 3;

impl JobId {
    /// A fresh id, of version 7, in shard 0.
    #[allow(
        clippy::new_without_default,
        reason = "a default id would hide that each is new"
    )]
    #[allow(
        clippy::disallowed_methods,
        reason = "the time in an id decides nothing"
    )]
    pub fn new() -> Self {
        Self(Uuid::now_v7()).in_shard(0)
    }

    /// This id with the shard written into its ten named bits.
    ///
    /// # Panics
    /// Debug builds panic for a shard over 1,023.
    #[must_use]
    pub fn in_shard(self, shard: u16) -> Self {
        debug_assert!(shard < 1024, "ten bits name a shard");
        let bits = self.0.as_u128() & !SHARD_MASK;
        Self(Uuid::from_u128(
            bits | (u128::from(shard & 0x3ff) << SHARD_SHIFT),
        ))
    }

    /// The shard in the ten named bits; any number for an id made elsewhere.
    pub fn shard(self) -> u16 {
        ((self.0.as_u128() & SHARD_MASK) >> SHARD_SHIFT) as u16
    }

    /// An id derived from a name in a namespace of names: the same for the same two texts.
    ///
    /// For sources and imports that must not send twice.
    pub fn derived(namespace: &str, name: &str) -> Self {
        // FNV-1a over both texts, 128 bits wide; not a defence against forgery.
        const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
        let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
        for byte in namespace.bytes().chain([0xff]).chain(name.bytes()) {
            hash = (hash ^ u128::from(byte)).wrapping_mul(PRIME);
        }
        let mut bytes = hash.to_be_bytes();
        bytes[0] = FORM_DERIVED;
        Self(uuid::Builder::from_custom_bytes(bytes).into_uuid())
    }

    /// The id of a schedule's run: the same for the same name and instant in every process.
    ///
    /// Version 8: 8 bits of its form, 60 of the SHA-256 of the name, 54 of the microseconds.
    ///
    /// ```
    /// use punctual::JobId;
    ///
    /// let id = JobId::occurrence("beat", "2026-09-21T14:14:00Z".parse()?);
    /// assert_eq!(id.to_string(), "02f9eeb6-3bf7-873f-92c6-5bfedc883a00");
    /// assert!(id.is_reserved() && !JobId::derived("beat", "1").is_reserved());
    /// # Ok::<(), punctual::Error>(())
    /// ```
    pub fn occurrence(schedule: &str, at: Timestamp) -> Self {
        let micros = u128::from(at.as_micros()) & ((1 << 54) - 1);
        Self::of_form(FORM_OCCURRENCE, schedule, micros)
    }

    /// The id of a step of a flow: the same for the same names in every process.
    ///
    /// Version 8: 8 bits of its form, 60 of the SHA-256 of the flow's name, 54 of that of the
    /// step's.
    pub fn step(flow: &str, step: &str) -> Self {
        let low = hash_of(step) & ((1 << 54) - 1);
        Self::of_form(FORM_STEP, flow, low)
    }

    /// 60 bits of the hash of a name and 54 others, in a UUID of version 8.
    fn of_form(form: u8, name: &str, low: u128) -> Self {
        let hash = hash_of(name) >> 4;
        let bits = u128::from(form) << 120
            | (hash >> 20) << 80
            | ((hash >> 8) & 0xfff) << 64
            | (hash & 0xff) << 54
            | low;
        Self(uuid::Builder::from_custom_bytes(bits.to_be_bytes()).into_uuid())
    }

    /// Whether ids of this form are those of runs and of steps: no other job can take their place.
    pub fn is_reserved(self) -> bool {
        let [form, ..] = *self.as_bytes();
        self.0.get_version_num() == 8 && (form == FORM_OCCURRENCE || form == FORM_STEP)
    }

    /// The id of that UUID.
    pub const fn from_uuid(uuid: Uuid) -> Self {
        Self(uuid)
    }

    /// The sixteen bytes, most significant first.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// The id of these sixteen bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }
}

/// The first 64 bits of the SHA-256 of a text.
fn hash_of(text: &str) -> u128 {
    let digest = Sha256::digest(text.as_bytes());
    digest[..8]
        .iter()
        .fold(0_u128, |hash, byte| hash << 8 | u128::from(*byte))
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for JobId {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        Uuid::try_parse(text).map(Self).map_err(|_| {
            Error::new(ErrorKind::InvalidInput, TEXT_JOB_ID).with(
                "id",
                format!("{:?}", text.chars().take(64).collect::<String>()),
            )
        })
    }
}
