//! Ids of jobs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};

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
        Self(uuid::Builder::from_custom_bytes(hash.to_be_bytes()).into_uuid())
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
            Error::new(ErrorKind::InvalidInput, "job id is not a UUID").with(
                "id",
                format!("{:?}", text.chars().take(64).collect::<String>()),
            )
        })
    }
}
