//! Asks every server what it is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use punctual::Result;
use punctual::engine::Durability;
use punctual::time::{Clock, SystemClock};
use redis::{FromRedisValue, cmd};

use crate::policy::server_info::ServerInfo;
use crate::policy::truncated_aof;
use crate::servers::TRIES;
use crate::session::calls::Calls;
use crate::transport::link::{Deadline, Live};
use crate::transport::node::Node;

/// What every server that answers for slots says of itself.
pub(crate) async fn examine(calls: &Calls) -> Result<Vec<ServerInfo>> {
    let deadline = calls.deadline();
    let mut backoff = TRIES;
    loop {
        match examine_once(calls, deadline).await {
            Err(error) => calls.servers.wait(error, &mut backoff, deadline).await?,
            done => return done,
        }
    }
}

async fn examine_once(calls: &Calls, deadline: Deadline) -> Result<Vec<ServerInfo>> {
    let mut server_infos = Vec::new();
    for node in calls.servers.masters(deadline).await? {
        server_infos.push(examine_one(&node, calls, deadline).await?);
    }
    Ok(server_infos)
}

async fn examine_one(node: &Node, calls: &Calls, deadline: Deadline) -> Result<ServerInfo> {
    let live = node.live().await?;
    let mut server_info = ServerInfo::of(node, &live, deadline).await?;
    server_info.clock_offset_us = clock_offset(node, &live, deadline).await;
    server_info.functions = match node.functions(&calls.library, &live).await {
        // That it is too old is said with its version, by who asks what it keeps.
        Err(_) if server_info.is_too_old() => None,
        functions => functions?,
    };
    Ok(server_info)
}

/// The CPU that the servers that answer for slots have used since their start, user and system,
/// that of their forks too.
pub(crate) async fn cpu(calls: &Calls) -> Result<Duration> {
    let (deadline, mut sum) = (calls.deadline(), 0.0);
    let mut info = cmd("INFO");
    info.arg("cpu");
    for node in calls.servers.masters(deadline).await? {
        let reply = node.ask(&node.live().await?, &info, deadline).await?;
        let text = String::from_redis_value(reply).unwrap_or_default();
        sum += cpu_of(&text).ok_or_else(crate::wire::damaged)?;
    }
    Ok(Duration::from_secs_f64(sum))
}

/// Seconds of CPU in what `INFO cpu` answers.
fn cpu_of(info: &str) -> Option<f64> {
    const PARTS: [&str; 4] = [
        "used_cpu_sys",
        "used_cpu_user",
        "used_cpu_sys_children",
        "used_cpu_user_children",
    ];
    let fields: BTreeMap<&str, &str> = info
        .lines()
        .filter_map(|line| line.split_once(':'))
        .collect();
    let seconds = |name| fields.get(name)?.trim().parse::<f64>().ok();
    let parts: Option<Vec<f64>> = PARTS.into_iter().map(seconds).collect();
    parts
        .map(|parts| parts.iter().sum())
        .filter(|sum: &f64| sum.is_finite() && *sum >= 0.0)
}

/// By how much a server's clock is ahead of this machine's, half the way to it apart.
async fn clock_offset(node: &Node, live: &Live, deadline: Deadline) -> Option<i64> {
    let before = SystemClock.now().as_micros();
    let time = node.ask(live, &cmd("TIME"), deadline).await.ok()?;
    let after = SystemClock.now().as_micros();
    let (seconds, micros) = <(u64, u64)>::from_redis_value(time).ok()?;
    let here = before.midpoint(after);
    let there = seconds.checked_mul(1_000_000)?.checked_add(micros)?;
    i64::try_from(there)
        .ok()?
        .checked_sub(i64::try_from(here).ok()?)
}

/// What the replicas of a master say of themselves, each once. One that cannot be reached is listed
/// with the reason: replicas may know each other by names that no other host knows.
pub(crate) async fn replicas_of(master: &ServerInfo, calls: &Calls) -> Vec<ServerInfo> {
    let mut server_infos = Vec::new();
    for host in &master.followers {
        let node = calls.servers.node(host);
        let asked = examine_one(&node, calls, calls.deadline()).await;
        let server_info = asked.unwrap_or_else(|error| ServerInfo {
            host: host.to_string(),
            silent: Some(error.message().to_owned()),
            ..ServerInfo::default()
        });
        server_infos.push(ServerInfo {
            // By the name that is known here.
            replica_of: Some(master.host.clone()),
            ..server_info
        });
    }
    server_infos
}

/// What servers that sync each change keep: one that may write on behind a truncated transaction
/// loses more than its last second.
pub(crate) async fn rewrite_all(calls: &Calls) -> Result<Durability> {
    let deadline = calls.deadline();
    let mut backoff = TRIES;
    loop {
        let forbids = match first_that_refuses(calls, deadline).await {
            Err(error) => {
                calls.servers.wait(error, &mut backoff, deadline).await?;
                continue;
            }
            Ok(forbids) => forbids,
        };
        return match (forbids, calls.options.durability) {
            (None, _) => Ok(Durability::Fsync),
            (Some(_), None) => Ok(Durability::Os),
            (Some(_), Some(stated @ Durability::Stated(_))) => Ok(stated),
            (Some(node), Some(_)) => Err(truncated_aof::refused(&node)),
        };
    }
}

async fn first_that_refuses(calls: &Calls, deadline: Deadline) -> Result<Option<Arc<Node>>> {
    for node in calls.servers.masters(deadline).await? {
        if !truncated_aof::rewrite_once(&node, &node.live().await?).await? {
            return Ok(Some(node));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
