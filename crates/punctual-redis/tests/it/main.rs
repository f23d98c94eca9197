//! Tests of the public interface, on servers of their own.

/// A call of many does what calls of one do.
mod alike;
/// What is wrong from the start.
mod bad_input;
/// Jobs of one call that are stored together.
mod bundles;
/// The verbs in words.
mod by_hand;
/// What the verbs in words refuse.
mod by_hand_refusals;
/// Workers by hand and jobs that crashed twice.
mod by_hand_suspects;
/// Workers in other languages, killed and stopped.
mod by_hand_workers;
/// Encryption.
mod certificates;
/// Calls that tests make.
mod client;
/// The engine keeps the law on three masters of a cluster.
mod cluster;
/// The engine keeps the law on one server.
mod conformance;
/// A connection that is cut at every byte.
mod cuts;
/// The same under TLS and in a cluster.
mod cuts_apart;
/// The same of calls that share what is cut, or take several steps.
mod cuts_together;
/// Callers that go.
mod dropped;
/// Sentinels elect without asking who was waited for.
mod elected;
/// Masters that fail, slots that move, replicas that are waited for.
mod failover;
/// Servers that are killed, stopped, emptied, filled.
mod faults;
/// How many commands a call takes.
mod few_commands;
/// Steps that wait for each other.
mod flows;
/// Functions that go while many call.
mod flushes;
/// Workers that are gone.
mod forgotten;
/// Passwords, users who may do little.
mod groups;
mod guarded;
/// Calls by hand.
mod hand;
/// Makes engines for all of them.
mod harness;
/// Records that are lost one by one.
mod heals;
/// What changes about servers while an engine runs.
mod health;
/// Many who sleep until the same due.
mod herd;
/// The engine and the reference model do the same, step by step.
mod histories;
/// Laws find the bugs that are injected into the functions.
mod injected;
/// Cold jobs whose time has come before all of them were looked up.
mod lagging;
/// Records that a later version has written.
mod later;
/// A counter under a lock whose holders stop and whose master dies.
mod locks;
/// Receives what is logged.
mod logs;
/// One job by itself.
mod lone;
/// Settles whose answer is lost.
mod lost_settles;
/// What a server has done for a call.
mod meter;
/// Calls that end midway.
mod midway;
/// Slots of many keys that move.
mod moves;
/// What a call costs beside leases of others.
mod named_limits;
mod neighbours;
/// Effects for other shards.
mod outbox;
/// Packed calls by hand.
mod packed;
/// Makes packed calls.
mod packer;
/// Hashes that records are in.
mod parts;
/// Many jobs due in the same minute.
mod pile;
/// Masters of a cluster that others take the place of.
mod promoted;
/// Queues that are emptied.
mod purge;
/// Workers that were there all the time.
mod record_bytes;
mod recovery;
/// Users who may do little, wherever their servers stand.
mod rules;
/// Schedules whose keys are lost, without a process, in several shards.
mod schedules;
/// Leases of jobs as they were sent.
mod sent;
/// The engine keeps the law over several shards, as far as it can.
mod set_back;
mod several;
/// Jobs of one key that take turns with those of others.
mod shares;
/// Callers of the functions alone.
mod sleepers;
/// Entries in line of jobs that have left it.
mod stale;
/// Machines without a server.
mod starting;
mod stated;
/// Calls of several callers that leave together.
mod together;
mod topics;
/// Calls that were done, refused when they are sent again.
mod unknown_outcome;
/// Leases that are read by the worker that claimed them.
mod unseen;
/// Jobs that are gone.
mod vanished;
/// Functions and clients of other versions.
mod versions;
/// Who waits on a connection that is cut.
mod waits;
/// Wakeups among several processes.
mod wakeups;
mod walks;
