use punctual::Namespace;
use punctual::Result;
use punctual::engine::Maintained;

use crate::calls::Calls;

impl Calls {
    /// Every shard of every namespace that was ever written to, one after the other.
    pub(crate) async fn maintain_all(&self) -> Result<Maintained> {
        let mut sum = Maintained::default();
        for name in self.namespaces().await? {
            let Ok(namespace) = Namespace::new(name) else {
                continue;
            };
            for shard in self.shards.of(&namespace).iter() {
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
