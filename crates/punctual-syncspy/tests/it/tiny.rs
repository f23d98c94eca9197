//! What the spy does to the files of a small program.

use std::io::{BufRead, BufReader, Write};
use std::process::Command;
use std::time::Duration;

use punctual_syncspy::Tear;

use crate::program::Watched;

fn of(letter: char, file: &[u8]) -> usize {
    file.iter().filter(|byte| **byte == letter as u8).count()
}

#[test]
fn synced_bytes_survive_and_the_rest_is_torn_anywhere() {
    let mut lengths = std::collections::BTreeSet::new();
    for seed in 0..12 {
        let watched = Watched::new();
        let cut = watched.run_and_cut(
            "append 100 a,sync,append 50 b,append 50 c",
            seed,
            Tear::Prefix,
        );
        let file = watched.file();
        assert_eq!(of('a', &file), 100, "they were synced");
        assert_eq!(file[100..].len() as u64 + cut.lost(), 100);
        assert!(
            of('c', &file) == 0 || of('b', &file) == 50,
            "in the order they were written"
        );
        lengths.insert(file.len());
    }
    assert!(
        lengths.contains(&100),
        "all that may be lost is lost sometimes"
    );
    assert!(lengths.len() > 5, "it is torn in many places: {lengths:?}");
}

#[test]
fn without_a_power_cut_nothing_is_forgotten_over_a_kill() {
    let watched = Watched::new();
    let (mut child, _) = watched.run("append 100 a,sync,append 50 b");
    child.kill().expect("it is alive");
    child.wait().expect("it is dead");
    assert_eq!(watched.file().len(), 150, "a kill takes nothing");
    let (mut child, _) = watched.run("append 50 c");
    child.kill().expect("it is alive");
    child.wait().expect("it is dead");
    let seeds = (0..20).find_map(|seed| {
        let before = watched.file();
        let cut = watched
            .spy
            .cut_files(seed, Tear::Prefix)
            .expect("a power cut");
        let unsynced: u64 = cut.files.iter().map(|file| file.unsynced).sum();
        (before.len() == 200 && unsynced == 100).then_some(watched.file().len())
    });
    let left = seeds.expect("what two lives wrote is not synced");
    assert!((100..=200).contains(&left), "{left}");
}

#[test]
fn what_is_left_after_a_power_cut_is_on_disk() {
    let watched = Watched::new();
    watched.run_and_cut("append 100 a", 3, Tear::Prefix);
    let left = watched.file();
    let again = watched.spy.cut_files(4, Tear::Prefix).expect("a power cut");
    assert_eq!(again.lost(), 0);
    assert_eq!(watched.file(), left);
}

#[test]
fn overwritten_and_cut_bytes_come_back() {
    let acts = "append 2000 a,sync,put 500 1000 b,cut 700,append 10 c,anew 5 d";
    let mut all_back = false;
    for seed in 0..12 {
        let watched = Watched::new();
        let cut = watched.run_and_cut(acts, seed, Tear::Prefix);
        all_back |= watched.file() == [b'a'; 2000] && cut.lost() > 0;
    }
    assert!(all_back, "no seed lost all");
}

#[test]
fn sectors_are_lost_each_by_itself() {
    for seed in 0..8 {
        let watched = Watched::new();
        watched.run_and_cut("append 51200 a,sync,put 0 51200 b", seed, Tear::Sectors);
        let file = watched.file();
        let sectors: Vec<bool> = file
            .chunks(512)
            .map(|sector| of('b', sector) == 512)
            .collect();
        assert!(
            file.chunks(512)
                .all(|sector| matches!(of('b', sector), 0 | 512))
        );
        let flips = sectors.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(flips > 5, "old and new ones lie among each other: {flips}");
    }
}

#[test]
fn a_seed_decides_what_is_lost() {
    let left = |seed| {
        let watched = Watched::new();
        watched.run_and_cut("append 1000 a", seed, Tear::Prefix);
        watched.file().len()
    };
    assert_eq!(left(7), left(7));
}

#[test]
fn the_kth_sync_fails_and_nothing_counts_as_synced_after_it() {
    let watched = Watched::new();
    watched.spy.fail_sync(2).expect("a fault");
    let (mut child, said) = watched.run("append 10 a,sync,append 10 b,sync,append 10 c,sync");
    let eio = format!("{:?}", Some(5));
    assert_eq!(said, ["done", "done", "done", &eio, "done", "done"]);
    let counts = watched.spy.counts().expect("counts");
    assert_eq!((counts.syncs, counts.failed_syncs), (3, 1));
    let cut = watched.spy.power_cut(1, Tear::Prefix).expect("a power cut");
    child.wait().expect("it is dead");
    assert_eq!(
        cut.files[0].unsynced, 20,
        "the last sync only seemed to succeed"
    );
    assert!(watched.file().starts_with(&[b'a'; 10]));
}

#[test]
fn a_file_that_is_written_anew_after_a_failed_sync_can_be_synced() {
    let watched = Watched::new();
    watched.spy.fail_sync(1).expect("a fault");
    let (mut child, said) = watched.run("append 10 a,sync,anew 5 b,sync,append 5 c");
    assert_eq!((&*said[1], &*said[3]), ("Some(5)", "done"));
    let cut = watched.spy.power_cut(1, Tear::Prefix).expect("a power cut");
    child.wait().expect("it is dead");
    assert_eq!(cut.files[0].unsynced, 5, "what came after that sync");
    assert!(watched.file().starts_with(&[b'b'; 5]));
}

#[test]
fn from_the_kth_write_on_the_disk_is_full_until_it_is_healed() {
    let watched = Watched::new();
    watched.spy.fill_after(2).expect("a fault");
    let enospc = format!("{:?}", Some(28));
    let (_child, said) = watched.run("append 10 a,append 10 b,append 10 c");
    assert_eq!(said, ["done", &enospc, &enospc]);
    assert_eq!(watched.spy.counts().expect("counts").refused_writes, 2);
    watched.spy.heal().expect("it heals");
    let (_child, said) = watched.run("append 10 d");
    assert_eq!(said, ["done"]);
    assert_eq!(watched.file(), b"aaaaaaaaaadddddddddd");
    watched
        .spy
        .power_cut(0, Tear::Prefix)
        .expect("it ends both");
}

#[test]
fn a_sync_takes_as_long_as_set() {
    let watched = Watched::new();
    let span = Duration::from_millis(300);
    watched.spy.slow_sync(span).expect("a fault");
    let watch = punctual::time::Stopwatch::start();
    watched.run_and_cut("append 10 a,sync", 0, Tear::Prefix);
    assert!(watch.elapsed() >= span);
    assert_eq!(watched.file().len(), 10);
}

#[test]
fn syncs_are_known_by_name_beginning_and_end_until_a_power_cut() {
    let watched = Watched::new();
    let began = stamp();
    let (mut child, _) = watched.run("append 10 a,sync");
    let span = Duration::from_millis(300);
    watched.spy.slow_sync(span).expect("a fault");
    child.kill().expect("it is alive");
    child.wait().expect("it is dead");
    let (mut child, _) = watched.run("append 10 b,sync");
    let syncs = watched.spy.syncs().expect("syncs");
    let [quick, slow] = &syncs[..] else {
        panic!("one after the other: {syncs:?}");
    };
    assert!(syncs.iter().all(|sync| sync.name == "file"), "{syncs:?}");
    let ends = [quick, slow].map(|sync| sync.ended.expect("it is over"));
    assert!(began <= quick.began && ends[0] <= slow.began && ends[1] <= stamp());
    assert!(ends[1] - slow.began >= 300_000, "{syncs:?}");
    watched.spy.power_cut(1, Tear::Prefix).expect("a power cut");
    child.wait().expect("it is dead");
    assert_eq!(watched.spy.syncs().expect("syncs"), []);
}

#[test]
fn a_sync_in_which_its_process_is_killed_has_no_end() {
    let watched = Watched::new();
    let forever = Duration::from_secs(3_600);
    watched.spy.slow_sync(forever).expect("a fault");
    let begun = || watched.spy.syncs().expect("syncs");
    let mut child = watched.start("append 10 a,sync");
    while begun().is_empty() {
        std::thread::yield_now();
    }
    child.kill().expect("it is alive");
    child.wait().expect("it is dead");
    assert_eq!(begun().len(), 1);
    assert_eq!(begun()[0].ended, None);
}

/// An engine removes a file of its log as it syncs it. That ended its process, for the spy lost
/// count.
#[test]
fn a_file_that_is_removed_while_it_is_synced_ends_no_process() {
    let watched = Watched::new();
    let slow = Duration::from_millis(300);
    watched.spy.slow_sync(slow).expect("a fault");
    let mut child = watched.start("append 10 a,remove,anew 5 b,run");
    while watched.spy.syncs().expect("syncs").is_empty() {
        std::thread::yield_now();
    }
    let input = child.stdin.as_mut().expect("its input is a pipe");
    input.write_all(b"\n").expect("it reads");
    let output = child.stdout.take().expect("its output is a pipe");
    let lines = BufReader::new(output).lines().map_while(Result::ok);
    let said = lines.filter_map(|line| line.strip_prefix('#').map(str::to_owned));
    let said: Vec<String> = said.take(4).collect();
    assert_eq!(said.len(), 4, "it has ended: {said:?}");
    assert_eq!(said[..3], ["done", "done", "done"]);
    let cut = watched.spy.power_cut(1, Tear::Prefix).expect("a power cut");
    child.wait().expect("it is dead");
    assert_eq!(cut.files[0].unsynced, 5, "that of the same name is another");
}

#[test]
fn of_very_many_syncs_the_last_are_known() {
    let watched = Watched::new();
    let (mut child, _) = watched.run(&format!("append 1 a{}", ",sync".repeat(1_030)));
    child.kill().expect("it is alive");
    child.wait().expect("it is dead");
    let syncs = watched.spy.syncs().expect("syncs");
    assert_eq!(syncs.len(), 1_024);
    assert!(syncs.is_sorted_by_key(|sync| sync.began));
    assert_eq!(watched.spy.counts().expect("counts").syncs, 1_030);
}

/// Microseconds of the monotonic clock.
fn stamp() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
    micros.try_into().expect("it has begun")
}

#[test]
fn another_run_of_the_machine_begins_with_a_power_cut() {
    let watched = Watched::new();
    let run = || {
        let (mut child, said) = watched.run("run");
        child.kill().expect("it is alive");
        child.wait().expect("it is dead");
        said[0].clone()
    };
    let (first, second) = (run(), run());
    assert_eq!(first, second, "a kill ends no run");
    watched.spy.cut_files(1, Tear::Prefix).expect("a power cut");
    assert_ne!(run(), second);
}

/// `seq` writes by a stream of the C library to a file that the shell opened.
#[test]
fn bytes_that_came_unseen_are_not_synced() {
    let watched = Watched::new();
    let script = format!(
        "seq 1000 > {}/file; sync; kill -STOP $$",
        watched.data().display()
    );
    let mut command = Command::new("sh");
    let command = watched
        .spy
        .arm(command.args(["-c", &script]))
        .expect("it is built");
    let status = {
        let mut child = command.spawn().expect("sh");
        while watched
            .data()
            .join("file")
            .metadata()
            .map_or(0, |about| about.len())
            < 3893
        {
            std::thread::yield_now();
        }
        let cut = watched.spy.power_cut(2, Tear::Prefix).expect("a power cut");
        assert_eq!(cut.files[0].unsynced, 3893);
        child.wait().expect("it is dead")
    };
    assert!(!status.success());
}

#[test]
fn a_spy_is_not_made_over_another_one() {
    let watched = Watched::new();
    let control = watched.data().parent().expect("a parent").join("spy");
    let error = punctual_syncspy::SyncSpy::new(control, watched.data()).expect_err("there is one");
    assert!(
        error.to_string().contains("cannot be a control directory"),
        "{error}"
    );
}
