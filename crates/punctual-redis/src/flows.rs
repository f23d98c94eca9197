//! Flows: which calls of them an engine refuses, and their controls.

use std::sync::Arc;

use punctual::engine::{Control, Controlled};
use punctual::flow::FlowStatus;
use punctual::{Effect, Error, ErrorKind, Namespace, NewJob, Result};

use crate::session::calls::Calls;
use crate::session::shards::Shard;
use crate::transport::node::Kind;
use crate::wire::flow::{self, is_linked};

/// Refuses jobs that wait for others where a namespace is cut into shards: those that wait for each
/// other are to be in one.
pub(crate) fn may_link<'a>(jobs: impl IntoIterator<Item = &'a NewJob>, count: usize) -> Result<()> {
    match count > 1 && jobs.into_iter().any(is_linked) {
        true => Err(unsupported()),
        false => Ok(()),
    }
}

/// The jobs that effects enqueue.
pub(crate) fn of_effects(effects: &[Effect]) -> impl Iterator<Item = &NewJob> {
    effects.iter().filter_map(|effect| match effect {
        Effect::Enqueue(job) => Some(&**job),
        _ => None,
    })
}

impl Calls {
    /// A control of flows; `None` if it is another.
    pub(crate) async fn control_flows(
        &self,
        namespace: &Namespace,
        asked: &Control,
    ) -> Result<Option<Controlled>> {
        let Some(map) = flow::request(asked) else {
            return Ok(None);
        };
        let shards = self.shards_of(namespace).await?;
        if shards.len() > 1 {
            return Err(unsupported());
        }
        if let Control::Flows { after, limit } = asked {
            let found = self.list_flows(&shards[0], after, *limit).await?;
            return Ok(Some(Controlled::Flows(found)));
        }
        let reply = self.change(&shards[0], "control", Kind::Changes, &map);
        Ok(Some(flow::reply(asked, &reply.await?)?))
    }

    /// A call answers a part of a long list.
    async fn list_flows(
        &self,
        shard: &Arc<Shard>,
        after: &str,
        limit: usize,
    ) -> Result<Vec<FlowStatus>> {
        let (mut found, mut after) = (Vec::new(), after.to_owned());
        loop {
            let map = flow::list(&after, limit - found.len());
            let reply = self.change(shard, "control", Kind::Changes, &map).await?;
            found.extend(flow::listed(&reply)?);
            match flow::more(&reply)?.filter(|_| found.len() < limit) {
                Some(last) => after = last,
                None => return Ok(found),
            }
        }
    }
}

fn unsupported() -> Error {
    let message = "a namespace that is cut into shards has no flows, as jobs that wait for each \
                   other are to be in one shard; use another namespace, at an address without `shards`, for them";
    Error::new(ErrorKind::Unsupported, message)
}
