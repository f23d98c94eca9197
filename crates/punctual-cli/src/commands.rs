//! One command per file.

pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod enqueue;
pub(crate) mod export;
pub(crate) mod flows;
pub(crate) mod import;
pub(crate) mod jobs;
mod keys;
mod links;
pub(crate) mod lock;
pub(crate) mod locks;
pub(crate) mod migrate;
pub(crate) mod outbox;
pub(crate) mod queues;
mod records;
pub(crate) mod relay;
pub(crate) mod repair;
pub(crate) mod restore;
pub(crate) mod schedules;
pub(crate) mod serve;
pub(crate) mod top;
pub(crate) mod topics;
pub(crate) mod work;
