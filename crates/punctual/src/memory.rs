//! The memory engine: for tests, for trying things out, and for jobs that may end with the process.

pub mod wheel;

use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use crate::engine::*;
use crate::error::Result;
use crate::job::{Limits, NewJob};
use crate::machine::{Machine, Wakeups};
use crate::sync::Lock;
use crate::time::{Clock, SteadyClock, SystemClock, Timestamp};

/// An engine that keeps everything in this process's memory, waiting jobs on a timing wheel.
///
/// ```
/// # async fn example() -> punctual::Result<()> {
/// use punctual::{Engine, MemoryEngine, NewJob, Namespace};
///
/// let engine = MemoryEngine::new();
/// let sent = engine.enqueue(&Namespace::default(), vec![NewJob::new("mail", "{}")]).await?;
/// assert_eq!(sent.receipts[0].verdict.name(), "created");
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
/// ```
pub struct MemoryEngine {
    machine: Mutex<Machine>,
    wakeups: Arc<Wakeups>,
    clock: SteadyClock,
}

impl fmt::Debug for MemoryEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryEngine")
    }
}

impl Default for MemoryEngine {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryEngine {
    /// An empty engine on the machine's clock.
    pub fn new() -> Self {
        Self::with_clock(SystemClock)
    }

    /// An empty engine on a clock of your own, such as a [`ManualClock`](crate::time::ManualClock).
    pub fn with_clock(clock: impl Clock) -> Self {
        Self::with_limits(clock, Limits::default())
    }

    /// An empty engine with other bounds.
    pub fn with_limits(clock: impl Clock, limits: Limits) -> Self {
        let clock = SteadyClock::new(Arc::new(clock), Timestamp::ZERO);
        Self {
            machine: Mutex::new(Machine::in_memory(limits)),
            wakeups: Arc::new(Wakeups::default()),
            clock,
        }
    }

    /// One step of the machine under the lock, and what it means for waiters.
    fn step<T>(
        &self,
        operation: &'static str,
        verb: impl FnOnce(&mut Machine, Timestamp) -> Result<T>,
    ) -> Result<(T, Timestamp)> {
        let mut machine = self.machine.locked();
        let now = self.clock.now();
        let answer = verb(&mut machine, now)
            .and_then(|answer| machine.finish().map(|()| answer))
            .map_err(|error| error.operation(operation));
        machine.deliver(&self.wakeups);
        answer.map(|answer| (answer, now))
    }
}

#[async_trait]
impl Engine for MemoryEngine {
    async fn enqueue(&self, namespace: &Namespace, jobs: Vec<NewJob>) -> Result<Enqueued> {
        let (receipts, now) = self.step("enqueue", |machine, now| {
            machine.enqueue(now, namespace, jobs)
        })?;
        Ok(Enqueued {
            receipts,
            durability: Durability::Memory,
            now,
        })
    }

    async fn claim(&self, namespace: &Namespace, claim: Claim) -> Result<Claimed> {
        Ok(self
            .step("claim", |machine, now| {
                machine.claim(now, namespace, &claim)
            })?
            .0)
    }

    async fn extend(&self, namespace: &Namespace, leases: Vec<Extend>) -> Result<Extended> {
        let (verdicts, now) = self.step("extend", |machine, now| {
            machine.extend(now, namespace, leases)
        })?;
        Ok(Extended { verdicts, now })
    }

    async fn settle(&self, namespace: &Namespace, settle: Settle) -> Result<Settled> {
        let (verdicts, now) = self.step("settle", |machine, now| {
            machine.settle(now, namespace, settle)
        })?;
        Ok(Settled { verdicts, now })
    }

    async fn wait(&self, namespace: &Namespace, what: WaitFor, until: Timestamp) -> Result<Waited> {
        what.check().map_err(|error| error.operation("wait"))?;
        match what {
            WaitFor::Work(queues) => {
                let poll = || async {
                    let found = self.step("wait", |machine, now| {
                        machine.listen(now, namespace, &queues)
                    });
                    Ok(found?.0)
                };
                self.wakeups
                    .work(namespace, &queues, &self.clock, until, poll)
                    .await
            }
            WaitFor::Settled(ids) => {
                let targets: Vec<_> = ids.iter().copied().map(Target::Id).collect();
                let poll = || async {
                    let got = self.step("wait", |machine, now| {
                        machine.get(now, namespace, &targets, false)
                    });
                    Ok(got?.0.iter().flatten().all(|job| job.state().is_settled()))
                };
                self.wakeups
                    .settled(namespace, &ids, &self.clock, until, poll)
                    .await
            }
            WaitFor::Changes(after) => {
                let poll = |after| async move {
                    let found = self.step("wait", |machine, now| {
                        Ok(machine.changes(now, namespace, after))
                    });
                    Ok(found?.0)
                };
                self.wakeups.feed(after, &self.clock, until, poll).await
            }
        }
    }

    async fn get(
        &self,
        namespace: &Namespace,
        targets: Vec<Target>,
        explain: bool,
    ) -> Result<Vec<Option<Got>>> {
        Ok(self
            .step("get", |machine, now| {
                machine.get(now, namespace, &targets, explain)
            })?
            .0)
    }

    async fn list(&self, namespace: &Namespace, list: List) -> Result<Listing> {
        Ok(self
            .step("list", |machine, now| machine.list(now, namespace, &list))?
            .0)
    }

    async fn edit(&self, namespace: &Namespace, edit: Edit) -> Result<Edited> {
        Ok(self
            .step("edit", |machine, now| machine.edit(now, namespace, edit))?
            .0)
    }

    async fn stats(&self, namespace: &Namespace, request: StatsRequest) -> Result<Stats> {
        Ok(self
            .step("stats", |machine, now| {
                machine.stats(now, namespace, &request)
            })?
            .0)
    }

    async fn control(&self, namespace: &Namespace, control: Control) -> Result<Controlled> {
        Ok(self
            .step("control", |machine, now| {
                machine.control(now, namespace, control)
            })?
            .0)
    }

    async fn maintain(&self) -> Result<Maintained> {
        Ok(self.step("maintain", Machine::maintain)?.0)
    }

    async fn info(&self) -> Result<Info> {
        let facts = |machine: &mut Machine, now| {
            machine.touch(now)?;
            let (bytes, problems) = (machine.memory_bytes() as u64, machine.problems()?);
            Ok((
                *machine.limits(),
                (machine.settled_window(), machine.resend_window()),
                machine.resend_problem(),
                machine.clock_jumps(),
                bytes,
                problems,
            ))
        };
        let ((limits, (settled_window, resend_window), resends, silences, bytes, problems), now) =
            self.step("info", facts)?;
        Ok(Info {
            engine: "memory",
            version: env!("CARGO_PKG_VERSION"),
            capabilities: Capability::of_this_build(),
            durability: Durability::Memory,
            limits,
            settled_window,
            resend_window,
            clock_jumps: silences + self.clock.steps_back(),
            store_bytes: Some(bytes),
            shards: 1,
            health: Health {
                ok: true,
                problems: resends.into_iter().collect(),
                of_namespaces: problems,
                loops: Vec::new(),
            },
            now,
        })
    }
}

#[cfg(test)]
mod tests;
