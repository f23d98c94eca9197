//! Goal: `kill -9` at any moment loses nothing acknowledged and leaves nothing half. Method: a
//! child works in a directory and says on a pipe what it sends and what it was answered; it is
//! killed after a random number of words, again and again, and what it said is held against what is
//! there.

/// What is killed.
mod child;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use punctual::engine::{Durability, Target};
use punctual::{Engine, JobId, JobState, Namespace};
use punctual_embedded::{EmbeddedEngine, Options};

use child::Word;

/// What the child said, over all its lives.
#[derive(Default)]
struct Reported {
    /// Acknowledged jobs, with the state that was.
    jobs: BTreeMap<JobId, JobState>,
    /// Calls of this life without an answer yet.
    enqueues: BTreeMap<u64, Vec<JobId>>,
    /// Calls of former lives without an answer, and settles of any life.
    unanswered: Vec<Vec<JobId>>,
    settles: BTreeMap<JobId, JobId>,
    /// Jobs whose settle this life has not answered yet.
    settling: BTreeSet<JobId>,
    kills: u64,
    counted: u64,
}

/// A check of the whole directory after so many kills; in between, the child itself recovers.
const POLLS_EVERY: u64 = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_kills_of_a_process_at_work_lose_nothing() {
    lose_nothing(60).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_kills_of_a_process_at_work_lose_nothing() {
    lose_nothing(200).await;
}

async fn lose_nothing(kills: u64) {
    let parent = tempfile::tempdir().expect("a directory");
    let directory = parent.path().join("data");
    let mut reported = Reported::default();
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    while reported.counted < kills {
        random = random
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        let durability = if random >> 40 & 1 == 0 { "fsync" } else { "os" };
        reported.one_life(&directory, durability, (random >> 33) as usize % 300);
        assert!(
            reported.kills < 3 * kills,
            "{} of {} kills counted",
            reported.counted,
            reported.kills
        );
        if reported.kills % POLLS_EVERY == 0 {
            reported.check(&directory).await;
        }
    }
    reported.check(&directory).await;
    println!(
        "{} kills, {} counted: an enqueue and a settle were in flight; {} jobs acknowledged",
        reported.kills,
        reported.counted,
        reported.jobs.len()
    );
}

impl Reported {
    /// Starts the child, listens to so many words, kills it, and listens to what is left.
    fn one_life(&mut self, directory: &Path, durability: &str, words: usize) {
        let mut child = Command::new(std::env::current_exe().expect("this test is a file"))
            .args([
                "kill::child::a_child_to_be_killed",
                "--exact",
                "--nocapture",
            ])
            .env(child::DIRECTORY, directory)
            .env(child::DURABILITY, durability)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the test can be started again");
        let pipe = child.stdout.take().expect("its output is a pipe");
        let mut lines = BufReader::new(pipe).lines();
        for line in lines.by_ref().map_while(Result::ok).take(words) {
            self.receive(&line);
        }
        child.kill().expect("it is alive");
        for line in lines.map_while(Result::ok) {
            self.receive(&line);
        }
        child.wait().expect("it is dead");
        self.kills += 1;
        let counts = !self.enqueues.is_empty() && !self.settling.is_empty();
        self.counted += u64::from(counts);
        self.settling.clear();
        self.unanswered
            .extend(std::mem::take(&mut self.enqueues).into_values());
    }

    fn receive(&mut self, line: &str) {
        match Word::parse(line) {
            Some(Word::Enqueues(call, ids)) => {
                self.enqueues.insert(call, ids);
            }
            Some(Word::Enqueued(call)) => {
                let ids = self.enqueues.remove(&call).expect("it was sent");
                ids.into_iter().for_each(|id| self.is_waiting(id));
            }
            Some(Word::Settles(job, follower)) => {
                self.settles.insert(job, follower);
                self.settling.insert(job);
            }
            Some(Word::Settled(job)) => {
                let follower = self.settles.remove(&job).expect("it was sent");
                self.settling.remove(&job);
                self.jobs.insert(job, JobState::Completed);
                self.is_waiting(follower);
            }
            // The words of the test harness around it, and a line that the kill cut.
            None => {}
        }
    }

    /// A job was acknowledged; its settling may have been answered before.
    fn is_waiting(&mut self, id: JobId) {
        self.jobs.entry(id).or_insert(JobState::Ready);
    }

    /// Compares what was answered with what is there.
    async fn check(&mut self, directory: &Path) {
        let options = Options::default()
            .durability(Durability::Os)
            .maintenance(false);
        let engine = EmbeddedEngine::open(directory, options).expect("a kill is no damage");
        for ids in std::mem::take(&mut self.unanswered) {
            let states = states(&engine, &ids).await;
            let stored = states.iter().flatten().count();
            assert!(
                stored == 0 || stored == ids.len(),
                "{stored} of {} jobs of one call",
                ids.len()
            );
            if stored > 0 {
                ids.into_iter().for_each(|id| self.is_waiting(id));
            }
        }
        for (job, follower) in std::mem::take(&mut self.settles) {
            let states = states(&engine, &[job, follower]).await;
            let is_settled = states[0] == Some(JobState::Completed);
            assert_eq!(
                is_settled,
                states[1].is_some(),
                "an outcome and its effect stand or fall together"
            );
            if is_settled {
                self.jobs.insert(job, JobState::Completed);
                self.is_waiting(follower);
            }
        }
        let ids: Vec<_> = self.jobs.keys().copied().collect();
        for ids in ids.chunks(1_000) {
            for (id, found) in ids.iter().zip(states(&engine, ids).await) {
                let reported = self.jobs[id];
                let found = found
                    .unwrap_or_else(|| panic!("{id} was acknowledged as {reported} and is gone"));
                assert_eq!(
                    found.is_settled(),
                    reported.is_settled(),
                    "{id} was acknowledged as {reported}, is {found}"
                );
            }
        }
        // The tombstones of settled jobs may go from now on.
        self.jobs.retain(|_, state| !state.is_settled());
    }
}

async fn states(engine: &EmbeddedEngine, ids: &[JobId]) -> Vec<Option<JobState>> {
    let targets = ids.iter().copied().map(Target::Id).collect();
    let got = engine
        .get(&Namespace::default(), targets, false)
        .await
        .expect("get");
    got.into_iter()
        .map(|job| job.map(|job| job.state()))
        .collect()
}
