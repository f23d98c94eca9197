//! The invariants, and what has to happen somewhere so that they say something.

use stateright::{Model, Property};

use crate::law::{Law, MAX_ATTEMPTS, Replication};
use crate::world::{Act, Ending, JobTruth, Truth, World};

impl Model for Law {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        vec![self.begin()]
    }

    fn actions(&self, world: &World, acts: &mut Vec<Act>) {
        acts.extend(self.acts(world));
    }

    fn next_state(&self, world: &World, act: Act) -> Option<World> {
        Some(self.step(world, act).0)
    }

    /// Past the first wrong state a bug may count for ever; without one nothing lies outside.
    fn within_boundary(&self, world: &World) -> bool {
        world
            .jobs
            .iter()
            .all(|job| job.attempt < 12 && job.crashes < 12 && job.effects < 12)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("one valid lease", |_, world| {
                all(world, |_, truth| !truth.two_leases)
            }),
            Property::always("nothing comes early", |_, world| {
                all(world, |_, truth| !truth.early)
            }),
            Property::always("a stale settle is refused", |_, world| {
                all(world, |_, truth| !truth.stale_settle)
            }),
            Property::always("a lease lasts as its holder extends it", |_, world| {
                all(world, |job, truth| {
                    let held = (job.ending == Ending::Active).then_some((job.holding(), job.left));
                    held == truth.holding
                })
            }),
            Property::always("what was acknowledged as completed stays so", |_, world| {
                all(world, |job, truth| {
                    truth.completed == (job.ending == Ending::Completed)
                })
            }),
            Property::always("an effect comes once, with its outcome", |_, world| {
                all(world, |job, truth| job.effects == u8::from(truth.completed))
            }),
            Property::always(
                "every lease that ran out is a crash, and nothing else is",
                |_, world| all(world, |job, truth| job.crashes == truth.crashes),
            ),
            Property::always("only a job that crashed alone is poison", |_, world| {
                all(world, |job, truth| {
                    job.ending != Ending::Poison || truth.crashed_alone
                })
            }),
            Property::always("a cancelled job never waits again", |_, world| {
                all(world, |job, truth| {
                    !truth.cancelled || job.ending != Ending::Ready
                })
            }),
            Property::always("failures are bounded by max_attempts", |_, world| {
                all(world, |job, _| job.failures <= MAX_ATTEMPTS)
            }),
            Property::sometimes("a job completes", |_, world| ends(world, Ending::Completed)),
            Property::sometimes("a job is cancelled", |_, world| {
                ends(world, Ending::Cancelled)
            }),
            Property::sometimes("a job fails too often", |_, world| {
                ends(world, Ending::Exhausted)
            }),
            Property::sometimes("a job is poison", |_, world| ends(world, Ending::Poison)),
            Property::sometimes(
                "a job completes though it is to stop",
                |_, world: &World| {
                    let stopping =
                        |job: &JobTruth| job.ending == Ending::Completed && job.cancel_requested;
                    world.jobs.iter().any(stopping)
                },
            ),
            Property::sometimes(
                "both workers believe to hold one job",
                |_, world: &World| {
                    (0..2).any(|job| world.workers.iter().all(|held| held[job].is_some()))
                },
            ),
        ];
        properties.extend(match self.replication {
            Replication::None => None,
            Replication::Awaited => Some(Property::always(
                "what a client saw completed stays so over every failover",
                |_, world: &World| all(world, |job, truth| !is_lost(job, truth)),
            )),
            Replication::Unawaited => Some(Property::sometimes(
                "what a client saw completed is lost",
                |_, world: &World| !all(world, |job, truth| !is_lost(job, truth)),
            )),
        });
        properties
    }
}

fn is_lost(job: &JobTruth, truth: &Truth) -> bool {
    truth.reported && job.ending != Ending::Completed
}

fn all(world: &World, holds: impl Fn(&JobTruth, &Truth) -> bool) -> bool {
    (world.jobs.iter().zip(&world.truth)).all(|(job, truth)| holds(job, truth))
}

fn ends(world: &World, ending: Ending) -> bool {
    world.jobs.iter().any(|job| job.ending == ending)
}
