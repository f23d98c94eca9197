//! Health: the engine's own report, and loops that have not run for too long.

use std::time::Duration;

use punctual::engine::Health;
use punctual::time::{exact_span, seconds};
use punctual_push::MaintenanceHealth;

/// With the loops of this process, and with those that are at the same work for longer than a round
/// takes.
pub(crate) fn seen(mut health: Health, maintenance: &MaintenanceHealth, round: Duration) -> Health {
    maintenance.add_to(&mut health);
    let hanging: Vec<String> = (health.loops.iter())
        .filter(|one| one.age > round)
        .map(|one| (format!("loop {} ", one.name), one.age))
        // The engine may have said so itself.
        .filter(|(name, _)| {
            !health
                .problems
                .iter()
                .any(|reported| reported.contains(name))
        })
        .map(|(name, age)| {
            let whole = seconds(age.as_secs());
            format!(
                "{name}has not run for {}; check the log and restart the process",
                exact_span(whole)
            )
        })
        .collect();
    health.ok &= hanging.is_empty();
    health.problems.extend(hanging);
    health
}
