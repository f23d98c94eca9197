//! Small histories made by hand: each invariant is kept by some, and broken in every way by others.

/// L.
mod bounded;
/// I1: what cancels were answered.
mod cancels;
/// What a power cut may take of claims.
mod cuts;
/// Which faults met something, and D.
mod effective;
/// I7.
mod ends;
/// E.
mod exits;
/// G.
mod flows;
/// I6: quiet periods.
mod heal;
/// I1, I4, I8, I10.
mod kept;
/// I2, I8: unique keys and groups.
mod keys;
/// I1: how jobs ended.
mod last;
/// I2, I3.
mod leases;
/// L1 to L3.
mod limits;
/// What holds where something may be lost.
mod losses;
/// T.
mod missing;
/// I3: leases that had run out.
mod overdue;
/// R1 to R4.
mod relayed;
/// How histories are made.
mod scenario;
/// S1 to S3.
mod schedules;
/// I2: how long leases last.
mod spans;
/// I5, I6, W.
mod timing;
/// What happened when, and how late: no invariants, but pages show them.
mod when;
