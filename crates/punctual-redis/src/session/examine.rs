//! Asks every server what it is.

use std::sync::Arc;

use punctual::Result;
use punctual::engine::Durability;

use crate::policy::server_info::ServerInfo;
use crate::policy::truncated_aof;
use crate::session::calls::Calls;
use crate::transport::link::Deadline;
use crate::transport::node::Node;
use crate::transport::servers::TRIES;

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
    server_info.functions = match node.functions(&calls.library, &live).await {
        // That it is too old is said with its version, by who asks what it keeps.
        Err(_) if server_info.is_too_old() => None,
        functions => functions?,
    };
    Ok(server_info)
}

/// What the replicas of a master say of themselves, each once. Who cannot be asked is told with the reason: they may
/// be known to each other by names that nobody else knows.
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

/// What servers that sync each change keep: one that may write on behind a truncated transaction loses more than
/// its last second.
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
