//! The command and the whole repository, from outside.

/// Who changed what.
mod audit;
/// The numbers of `bench`.
mod bench;
/// What commands get, and that nothing of them is left.
mod clear;
/// Workers whose own clock is wrong.
mod clocks;
mod commands;
/// Large edits, and a kill within them.
mod cut_short;
/// Export, import, backup, restore, repair.
mod data;
/// The demo, killed and started again.
mod demo;
/// What servers say of themselves, and what is missing there.
mod doctor;
/// Jobs from the command line and from files.
mod enqueue;
/// Flows that move between engines half way.
mod flow_exports;
/// Random flows while their workers are killed.
mod flow_kills;
/// The server, its tokens and its end.
mod flows;
/// The law, through HTTP.
mod http;
/// Looking at jobs and changing them.
mod jobs;
mod limited_lines;
/// Innocents run, idle workers are quiet, and nothing is left behind.
mod liveness;
mod lock;
/// Claims that wait at gateways with nothing to do.
mod long_polls;
mod observed;
#[cfg(feature = "otel")]
mod otel;
/// The server while its engine is away or full.
mod outages;
/// Counting, pausing and emptying queues.
mod push;
mod queues;
/// The same on a server.
mod recipes;
mod redis;
mod refused;
/// Relays, killed.
mod relay;
mod relay_kills;
/// The server ended and started again under load.
mod restarts;
mod schedule_files;
mod schedules;
mod schedules_shown;
mod serve;
/// What settlements over HTTP cost Redis.
mod settles;
/// Two commands on one directory.
mod shared;
/// Runs the binary in a directory of its own.
mod stopped;
mod support;
/// The server by TLS and by its file of settings.
mod tls;
/// Queues and workers, drawn again and again.
mod top;
mod topics;
/// Help, exit codes, errors, closed pipes.
mod usage;
mod versions;
/// A command per job.
mod work;
