//! Random numbers that a seed repeats.

use std::time::Duration;

/// Numbers from a seed: SplitMix64 (Steele, Lea, Flood, 2014).
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// A number below `end`.
    pub(super) fn small(&mut self, end: u8) -> u8 {
        self.below(u64::from(end)) as u8
    }

    /// True that many times in a hundred.
    pub(super) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of these.
    pub(super) fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }

    /// `Some` that many times in a hundred.
    pub(super) fn maybe<T>(
        &mut self,
        percent: u64,
        make: impl FnOnce(&mut Self) -> T,
    ) -> Option<T> {
        self.percent(percent).then(|| make(self))
    }

    /// One of these, drawn by its weight.
    pub(super) fn weighted<T: Copy>(&mut self, of: &[(u64, T)]) -> T {
        let mut drawn = self.below(of.iter().map(|(weight, _)| weight).sum());
        for (weight, item) in of {
            match drawn.checked_sub(*weight) {
                Some(rest) => drawn = rest,
                None => return *item,
            }
        }
        of[0].1
    }

    pub(super) fn span(&mut self, of: &[Duration]) -> Duration {
        self.one(of)
    }
}
