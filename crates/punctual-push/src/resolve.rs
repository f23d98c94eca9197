//! DNS lookups, bounded per namespace and in all.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Finds the addresses of a name.
#[async_trait]
pub trait Resolve: Send + Sync + fmt::Debug + 'static {
    /// Every address of the host.
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The resolver of the system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((host, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

/// Lookups for one namespace, so many at the same time. One whose caller has gone goes on:
/// that of the system holds a thread until its name server has answered, or been given up.
#[derive(Debug, Clone)]
pub(crate) struct Lookups {
    resolver: Arc<dyn Resolve>,
    /// A tenant whose names get no answer holds up only itself.
    own: Arc<Semaphore>,
}

/// A permit to resolve a name.
pub(crate) type LookupPermits = [OwnedSemaphorePermit; 2];

/// Lookups of one namespace at the same time.
pub(crate) const LOOKUPS_OWN_MAX: usize = 16;
/// And of the process: half of the threads that the runtime has for what blocks.
const LOOKUPS_MAX: usize = 256;
static ALL: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(LOOKUPS_MAX)));

impl Lookups {
    pub(crate) fn new(resolver: Arc<dyn Resolve>) -> Self {
        Self {
            resolver,
            own: Arc::new(Semaphore::new(LOOKUPS_OWN_MAX)),
        }
    }

    /// The same for another namespace.
    pub(crate) fn of_another(&self) -> Self {
        Self::new(self.resolver.clone())
    }

    /// A permit, if there is one at once.
    pub(crate) fn try_enter(&self) -> Option<LookupPermits> {
        let own = self.own.clone().try_acquire_owned().ok()?;
        Some([own, ALL.clone().try_acquire_owned().ok()?])
    }

    /// Waits for a permit.
    pub(crate) async fn enter(&self) -> Option<LookupPermits> {
        let own = self.own.clone().acquire_owned().await.ok()?;
        Some([own, ALL.clone().acquire_owned().await.ok()?])
    }

    /// Every address of the host. The permits are given back when the lookup has ended, also where
    /// this was dropped before.
    pub(crate) async fn resolve(
        &self,
        host: &str,
        permits: LookupPermits,
    ) -> io::Result<Vec<IpAddr>> {
        let (resolver, host) = (self.resolver.clone(), host.to_owned());
        let lookup = tokio::spawn(async move {
            let found = resolver.resolve(&host).await;
            drop(permits);
            found
        });
        lookup.await.map_err(io::Error::other)?
    }
}
