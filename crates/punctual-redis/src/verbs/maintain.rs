//! Maintain over the shards of a namespace.

use std::collections::BTreeSet;

use punctual::Namespace;
use punctual::Result;
use punctual::engine::Maintained;

use crate::session::calls::Calls;

impl Calls {
    /// Every shard of every namespace that was ever written to, or read from here, one after the
    /// other.
    pub(crate) async fn maintain_all(&self) -> Result<Maintained> {
        let mut sum = Maintained::default();
        let written = self.namespaces().await?.into_iter().map(Namespace::new);
        let seen = self.shards.contacted();
        let seen = seen.iter().map(|shard| shard.namespace.clone());
        let namespaces: BTreeSet<Namespace> = written.flatten().chain(seen).collect();
        for namespace in namespaces {
            for shard in self.shards_of(&namespace).await?.iter() {
                let part = self.maintain(shard).await?;
                sum.moved += part.moved;
                sum.expired += part.expired;
                sum.rescued += part.rescued;
                sum.pruned += part.pruned;
                sum.next = sum.next.into_iter().chain(part.next).min();
            }
        }
        Ok(sum)
    }
}
