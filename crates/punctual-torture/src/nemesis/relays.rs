//! Faults of relays, and of the server that they take from.

use punctual::time::pause;
use tokio::task::block_in_place;

use super::{Targets, disk};
use crate::plan::{Fault, Kind};
use crate::process::Kept;
use crate::relayed::System;

impl Targets {
    pub(super) async fn hit_relay(&self, fault: &Fault) -> bool {
        let Some(relay) = self.relay(fault) else {
            return false;
        };
        match fault.kind {
            Kind::KillRelay => relay.kill(fault.span()).await,
            Kind::StopRelay => relay.stop(fault.span()).await,
            _ => relay.terminate().await,
        }
    }

    pub(super) async fn hit_source(&self, fault: &Fault) -> bool {
        let Some(source) = &self.source else {
            return false;
        };
        let mut source = source.lock().await;
        block_in_place(|| source.kill());
        pause(fault.span()).await;
        block_in_place(|| disk::start_again(&mut source));
        true
    }

    fn relay(&self, fault: &Fault) -> Option<&Kept> {
        let place = fault.pick as usize % self.relays.len().max(1);
        self.relays.get(place)
    }

    /// By whose relays a message was on its way that such a fault met.
    pub(super) fn relays_hit(&self, fault: &Fault) -> Vec<String> {
        let hit = |system: &System| match fault.kind {
            Kind::KillSource => system.is_on_redis(),
            _ => {
                let name = self.relay(fault).map(Kept::name).unwrap_or_default();
                name.starts_with(&system.process())
            }
        };
        let systems = System::ALL.into_iter().filter(hit);
        systems.map(System::process).collect()
    }
}
