//! Asks every server what it is.

use punctual::Result;

use crate::calls::Calls;
use crate::link::Deadline;
use crate::node::Node;
use crate::servers::TRIES;
use crate::standing::Standing;

/// What every server that answers for slots says of itself.
pub(crate) async fn examine(calls: &Calls) -> Result<Vec<Standing>> {
    let deadline = calls.deadline();
    let mut backoff = TRIES;
    loop {
        match examine_once(calls, deadline).await {
            Err(error) => calls.servers.wait(error, &mut backoff, deadline).await?,
            done => return done,
        }
    }
}

async fn examine_once(calls: &Calls, deadline: Deadline) -> Result<Vec<Standing>> {
    let mut standings = Vec::new();
    for node in calls.servers.masters(deadline).await? {
        standings.push(examine_one(&node, calls, deadline).await?);
    }
    Ok(standings)
}

async fn examine_one(node: &Node, calls: &Calls, deadline: Deadline) -> Result<Standing> {
    let live = node.live().await?;
    let mut standing = Standing::of(node, &live, deadline).await?;
    standing.functions = match node.functions(&calls.library, &live).await {
        // That it is too old is said with its version, by who asks what it keeps.
        Err(_) if standing.is_too_old() => None,
        functions => functions?,
    };
    Ok(standing)
}

/// What the replicas of a master say of themselves, each once. Who cannot be asked is told with the reason: they may
/// be known to each other by names that nobody else knows.
pub(crate) async fn replicas_of(master: &Standing, calls: &Calls) -> Vec<Standing> {
    let mut standings = Vec::new();
    for host in &master.followers {
        let node = calls.servers.node(host);
        let asked = examine_one(&node, calls, calls.deadline()).await;
        let standing = asked.unwrap_or_else(|error| Standing {
            host: host.to_string(),
            silent: Some(error.message().to_owned()),
            ..Standing::default()
        });
        standings.push(Standing {
            // By the name that is known here.
            replica_of: Some(master.host.clone()),
            ..standing
        });
    }
    standings
}
