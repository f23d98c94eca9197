//! Unit tests of `log`.

use super::*;
use crate::testing::{Crash, Fault, ForgetfulDisk};

/// What no sync is known to have covered.
mod doubt;

const INSTANCE: u128 = 7;
const BOOT: u128 = 1;
const LATER_BOOT: u128 = 2;

/// The bytes of one segment: commits from `first` on, each known to be on disk by the next.
fn segment(first: u64, boot: u128, payloads: &[Vec<u8>]) -> Vec<u8> {
    let instance = INSTANCE;
    let mut bytes = Header {
        first,
        instance,
        boot,
    }
    .encode()
    .to_vec();
    for (number, payload) in (first..).zip(payloads) {
        let durable = number - 1;
        let record = Record {
            number,
            durable,
            payload,
        };
        record.encode(Seed::of(INSTANCE), &mut bytes);
    }
    bytes
}

/// Payloads of different lengths and bytes, none zero: a record that lost only zeros is whole.
fn payloads(count: usize) -> Vec<Vec<u8>> {
    let payload = |n: usize| {
        (0..=n * 37 % 400)
            .map(|k| ((n * 7 + k) as u8).max(1))
            .collect()
    };
    (0..count).map(payload).collect()
}

/// Reads segments as the next run of the machine does.
fn recover(segments: &[(&str, &[u8])], applied: u64) -> (Result<Tail>, Vec<Vec<u8>>) {
    recover_in(LATER_BOOT, segments, applied)
}

fn recover_in(
    boot: u128,
    segments: &[(&str, &[u8])],
    applied: u64,
) -> (Result<Tail>, Vec<Vec<u8>>) {
    let mut replayed = Vec::new();
    let mut recovery = Recovery::new(INSTANCE, boot, applied);
    for (name, bytes) in segments {
        let read = recovery.segment(name, bytes, &mut |payload| {
            replayed.push(payload.to_vec());
            Ok(())
        });
        if let Err(error) = read {
            return (Err(error), replayed);
        }
    }
    (recovery.finish(), replayed)
}

/// Where each record of a segment starts, and where the last one ends.
fn starts(payloads: &[Vec<u8>]) -> Vec<usize> {
    let mut at = HEADER_BYTES;
    let mut starts = vec![at];
    for payload in payloads {
        at += record::RECORD_BYTES + payload.len();
        starts.push(at);
    }
    starts
}

#[test]
fn a_tail_torn_at_any_of_its_16_ki_bytes_is_cut_and_the_rest_is_kept() {
    is_cut_anywhere(16 << 10, 80);
}

#[test]
fn a_tail_torn_at_any_of_its_64_ki_bytes_on_more_seeds() {
    is_cut_anywhere(64 << 10, 320);
}

fn is_cut_anywhere(span: usize, payloads_of_log: usize) {
    let payloads = payloads(payloads_of_log);
    let whole = segment(1, BOOT, &payloads);
    let starts = starts(&payloads);
    assert!(
        whole.len() > span,
        "the segment is longer than what is torn"
    );
    for cut in whole.len() - span..whole.len() {
        let kept = starts.partition_point(|start| *start <= cut) - 1;
        let mut ended = whole[..cut].to_vec();
        let zeros = [0, 64, 4096];
        for zeros in &zeros[..if cut % 16 == 0 { 3 } else { 1 }] {
            ended.resize(cut + *zeros, 0);
            let (tail, replayed) = recover(&[("log", &ended)], 0);
            let tail = tail.expect("a torn tail is no damage");
            assert_eq!(tail.last, kept as u64, "cut at {cut}");
            assert_eq!(replayed, payloads[..kept], "cut at {cut}");
            match tail.cut {
                Some(flaw) => assert_eq!((flaw.offset, flaw.whole), (starts[kept], 0)),
                None => assert_eq!(ended[starts[kept]..].iter().max().unwrap_or(&0), &0),
            }
        }
    }
}

#[test]
fn a_flipped_bit_in_a_middle_record_is_refused_with_file_and_offset() {
    let payloads = payloads(20);
    let whole = segment(1, BOOT, &payloads);
    let at = starts(&payloads)[9];
    let size = record::RECORD_BYTES + payloads[9].len();
    for boot in [BOOT, LATER_BOOT] {
        for bit in 0..size * 8 {
            let mut flipped = whole.clone();
            flipped[at + bit / 8] ^= 1 << (bit % 8);
            let (tail, replayed) = recover_in(boot, &[("log", &flipped)], 0);
            let error = tail.expect_err("damage is refused");
            assert_eq!(error.kind(), ErrorKind::DataDamaged);
            let context: Vec<_> = error
                .context()
                .map(|(name, value)| (name, value.to_owned()))
                .collect();
            let expected = [
                ("file", "log".into()),
                ("offset", at.to_string()),
                ("commit", "10".into()),
            ];
            assert_eq!(context, expected, "bit {bit}");
            assert!(error.message().contains("punctual repair"), "{error}");
            assert_eq!(replayed, payloads[..9]);
        }
    }
}

#[test]
fn a_bit_flipped_in_the_last_record_cuts_that_record_and_counts_it() {
    let payloads = payloads(20);
    let whole = segment(1, BOOT, &payloads);
    let at = starts(&payloads)[19];
    for byte in at..whole.len() {
        let mut flipped = whole.clone();
        flipped[byte] ^= 0x10;
        let (tail, replayed) = recover(&[("log", &flipped)], 0);
        let flaw = tail.unwrap().cut.expect("something was cut");
        assert_eq!((flaw.offset, flaw.torn), (at, whole.len() - at));
        assert_eq!(replayed, payloads[..19]);
    }
}

#[test]
fn a_damaged_header_is_refused_if_a_record_stands_behind_it() {
    let whole = segment(1, BOOT, &payloads(3));
    for byte in 0..HEADER_BYTES {
        let mut flipped = whole.clone();
        flipped[byte] ^= 1;
        let (tail, replayed) = recover(&[("log", &flipped)], 0);
        assert_eq!(
            tail.unwrap_err().kind(),
            ErrorKind::DataDamaged,
            "byte {byte}"
        );
        assert!(replayed.is_empty());
    }
}

#[test]
fn a_header_that_was_never_written_whole_is_no_damage_where_a_log_goes_on() {
    let (first, payloads) = (segment(1, BOOT, &payloads(3)), payloads(3));
    let next = segment(4, BOOT, &[]);
    for len in 0..HEADER_BYTES {
        let (tail, replayed) = recover(&[("a", &first), ("b", &next[..len])], 0);
        let tail = tail.unwrap();
        assert_eq!(
            (tail.last, tail.cut, tail.without_header),
            (3, None, vec!["b".into()])
        );
        assert_eq!(replayed, payloads);
    }
    let zeros = [0; HEADER_BYTES];
    let (tail, _) = recover(&[("a", &zeros)], 9);
    assert_eq!(
        tail.unwrap_err().kind(),
        ErrorKind::DataDamaged,
        "it held all since commit 9"
    );
}

#[test]
fn a_segment_without_header_is_skipped_if_the_log_went_on_without_it() {
    let payloads = payloads(5);
    let (a, c) = (
        segment(1, BOOT, &payloads[..4]),
        segment(5, BOOT, &payloads[4..]),
    );
    for without_header in [&[][..], &[0; HEADER_BYTES], &c[..HEADER_BYTES - 1]] {
        let (tail, replayed) = recover(&[("a", &a), ("b", without_header), ("c", &c)], 0);
        let tail = tail.unwrap();
        assert_eq!(
            (tail.last, tail.cut, tail.without_header),
            (5, None, vec!["b".into()])
        );
        assert_eq!(replayed, payloads);
        let later = segment(6, BOOT, &payloads[4..]);
        let (tail, _) = recover(
            &[
                ("a", &a),
                ("b", without_header),
                ("c", &later),
                ("d", &later),
            ],
            0,
        );
        assert_eq!(
            tail.unwrap_err().kind(),
            ErrorKind::DataDamaged,
            "commit 5 was in it"
        );
    }
}

#[test]
fn a_log_of_a_newer_version_is_refused_by_name() {
    let mut bytes = segment(1, BOOT, &payloads(1));
    bytes[8..12].copy_from_slice(&(FORMAT + 1).to_be_bytes());
    let crc = crc32fast::hash(&bytes[..52]);
    bytes[52..56].copy_from_slice(&crc.to_be_bytes());
    assert_eq!(
        recover(&[("log", &bytes)], 0).0.unwrap_err().kind(),
        ErrorKind::DataNewer
    );
}

#[test]
fn a_log_of_another_directory_is_refused() {
    let mut recovery = Recovery::new(INSTANCE + 1, BOOT, 0);
    let read = recovery.segment("log", &segment(1, BOOT, &payloads(1)), &mut |_| Ok(()));
    assert_eq!(read.unwrap_err().kind(), ErrorKind::DataDamaged);
}

#[test]
fn a_hole_of_a_power_cut_is_cut_and_any_other_hole_is_damage() {
    let payloads = payloads(3);
    let instance = INSTANCE;
    let boot = BOOT;
    let mut bytes = Header {
        first: 1,
        instance,
        boot,
    }
    .encode()
    .to_vec();
    for (number, payload) in (1..).zip(&payloads) {
        // All three were written while nothing but the first was known to be on disk.
        let durable = u64::from(number > 1);
        Record {
            number,
            durable,
            payload,
        }
        .encode(Seed::of(INSTANCE), &mut bytes);
    }
    let starts = starts(&payloads);
    bytes[starts[1]..starts[2]].fill(0);
    let (tail, replayed) = recover_in(LATER_BOOT, &[("log", &bytes)], 0);
    let tail = tail.expect("the machine has started anew: a hole in what was not synced");
    assert_eq!((tail.last, tail.cut.unwrap().whole), (1, 1));
    assert_eq!(replayed, payloads[..1]);
    let (tail, _) = recover_in(BOOT, &[("log", &bytes)], 0);
    assert_eq!(
        tail.unwrap_err().kind(),
        ErrorKind::DataDamaged,
        "a kill leaves no holes"
    );
}

#[test]
fn a_record_forged_in_a_payload_is_no_record() {
    let mut forged = Vec::new();
    let record = Record {
        number: 3,
        durable: 2,
        payload: b"forged",
    };
    record.encode(Seed::of(INSTANCE + 1), &mut forged);
    let whole = segment(1, BOOT, &[vec![1], forged]);
    let (tail, replayed) = recover(&[("log", &whole[..whole.len() - 1])], 0);
    assert_eq!(tail.expect("a torn tail is no damage").last, 1);
    assert_eq!(replayed, [[1]]);
}

#[test]
fn a_missing_segment_is_damage() {
    let (a, c) = (
        segment(1, BOOT, &payloads(2)),
        segment(5, BOOT, &payloads(2)),
    );
    let (tail, _) = recover(&[("a", &a), ("c", &c)], 0);
    let error = tail.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DataDamaged);
    assert!(
        error.context().any(|context| context == ("commit", "3")),
        "{error}"
    );
}

#[test]
fn commits_that_the_store_has_are_not_replayed() {
    let payloads = payloads(5);
    let (tail, replayed) = recover(&[("log", &segment(1, BOOT, &payloads))], 3);
    let tail = tail.unwrap();
    assert_eq!((tail.last, tail.cut), (5, None));
    assert_eq!(replayed, payloads[3..]);
}

const SMALL: LogOptions = LogOptions {
    segment_bytes: 300,
    write_ahead: true,
};

fn open(disk: &ForgetfulDisk, applied: u64) -> Result<(Log, Vec<Vec<u8>>)> {
    let mut replayed = Vec::new();
    let opened = Log::open(
        Arc::new(disk.clone()),
        SMALL,
        INSTANCE,
        applied,
        &mut |payload| {
            replayed.push(payload.to_vec());
            Ok(())
        },
    );
    opened.map(|(log, _)| (log, replayed))
}

/// Writes commits as the committer does, a sync after each; answers how many were synced.
fn write(log: &mut Log, disk: &ForgetfulDisk, payloads: &[Vec<u8>]) -> (u64, io::Result<()>) {
    let mut synced = log.number();
    for payload in payloads {
        let one = (|| {
            if log.is_long() {
                log.roll()?.sync()?;
                disk.sync_names()?;
            }
            log.stage(payload, synced);
            log.write()?;
            log.file().sync()
        })();
        if let Err(error) = one {
            return (synced, Err(error));
        }
        synced = log.number();
    }
    (synced, Ok(()))
}

#[test]
fn a_log_is_read_back_over_segments_and_openings() {
    let disk = ForgetfulDisk::default();
    let payloads = payloads(40);
    let mut log = Log::begin(Arc::new(disk.clone()), SMALL, INSTANCE, 0).unwrap();
    write(&mut log, &disk, &payloads[..20]).1.unwrap();
    let (mut log, replayed) = open(&disk, 0).unwrap();
    assert_eq!(replayed, payloads[..20]);
    write(&mut log, &disk, &payloads[20..]).1.unwrap();
    assert_eq!(open(&disk, 0).unwrap().1, payloads);
    assert_eq!(open(&disk, 30).unwrap().1, payloads[30..]);
}

#[test]
fn retired_segments_are_those_that_hold_nothing_new() {
    let disk = ForgetfulDisk::default();
    let payloads = payloads(40);
    let mut log = Log::begin(Arc::new(disk.clone()), SMALL, INSTANCE, 0).unwrap();
    write(&mut log, &disk, &payloads).1.unwrap();
    let retired = log.retire(25);
    assert!(!retired.is_empty());
    for name in &retired {
        disk.remove(name).unwrap();
    }
    assert!(first(&disk).unwrap().is_some_and(|first| first <= 26));
    assert_eq!(open(&disk, 25).unwrap().1, payloads[25..]);
    let refused = open(&disk, 5).map(drop).unwrap_err();
    assert_eq!(
        refused.kind(),
        ErrorKind::DataDamaged,
        "the store went backwards"
    );
}

#[test]
fn a_log_that_is_gone_is_refused() {
    let refused = open(&ForgetfulDisk::default(), 0).map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::DataDamaged);
}

#[test]
fn what_was_synced_outlives_a_stop_at_any_operation_and_any_power_cut() {
    let payloads = payloads(12);
    let begin = |disk: &ForgetfulDisk| Log::begin(Arc::new(disk.clone()), SMALL, INSTANCE, 0);
    let (before, after) = {
        let disk = ForgetfulDisk::default();
        let mut log = begin(&disk).unwrap();
        let before = disk.operations();
        write(&mut log, &disk, &payloads).1.unwrap();
        (before, disk.operations())
    };
    let mut stops = 0;
    for stop in before..after {
        for written in [0, 1, 17, 100] {
            for crash in [
                Crash::Kill,
                cut(0),
                cut(u64::MAX),
                cut(stop ^ 0xa5a5),
                cut(stop * 0x9e37),
            ] {
                let disk = ForgetfulDisk::default();
                let mut log = begin(&disk).unwrap();
                disk.at_operation(stop, Fault::Stops { written });
                let (synced, _) = write(&mut log, &disk, &payloads);
                let disk = disk.crash(crash);
                // Twice: what recovery cuts and writes must itself be recovered from.
                let (_, first) = open(&disk, 0).unwrap();
                let disk = disk.crash(Crash::PowerCut { keeps: !stop });
                let (_, second) = open(&disk, 0).unwrap();
                assert_eq!(first, second);
                assert!(
                    first.len() as u64 >= synced,
                    "stop {stop}: {} of {synced}",
                    first.len()
                );
                assert_eq!(first, payloads[..first.len()]);
                stops += 1;
            }
        }
    }
    assert!(stops > 500, "{stops}");
}

#[test]
fn a_stop_at_any_operation_of_an_opening_loses_nothing() {
    let payloads = payloads(12);
    let made = ForgetfulDisk::default();
    let mut log = Log::begin(Arc::new(made.clone()), SMALL, INSTANCE, 0).unwrap();
    write(&mut log, &made, &payloads).1.unwrap();
    log.stage(b"torn", 12);
    made.at_operation(made.operations(), Fault::Stops { written: 11 });
    assert!(log.write().is_err());
    let made = made.crash(Crash::PowerCut { keeps: u64::MAX });
    for applied in [0, 7, 12] {
        for stop in 0.. {
            let disk = made.copy();
            disk.at_operation(stop, Fault::Stops { written: 5 });
            let done = open(&disk, applied).is_ok();
            let disk = disk.crash(Crash::PowerCut {
                keeps: stop.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            });
            let (log, replayed) = open(&disk, applied).unwrap();
            assert_eq!(log.number(), 12);
            assert_eq!(replayed, payloads[applied as usize..], "stop {stop}");
            if done {
                break;
            }
        }
    }
}

fn cut(keeps: u64) -> Crash {
    Crash::PowerCut { keeps }
}

#[test]
fn a_segment_that_fails_to_begin_loses_nothing() {
    let payloads = payloads(12);
    let mut failed = 0;
    for operation in 0.. {
        let disk = ForgetfulDisk::default();
        let mut log = Log::begin(Arc::new(disk.clone()), SMALL, INSTANCE, 0).unwrap();
        let fails = disk.operations() + operation;
        disk.at_operation(fails, Fault::Fails);
        let mut written = 0;
        for payload in &payloads {
            if log.is_long() {
                failed += usize::from(log.roll().is_err());
            }
            log.stage(payload, log.number());
            if log.write().is_err() || log.file().sync().is_err() || disk.sync_names().is_err() {
                break;
            }
            written += 1;
        }
        let is_over = disk.operations() <= fails;
        let disk = disk.crash(Crash::PowerCut { keeps: 0 });
        // Twice: what the first opening leaves must be as good.
        for _ in 0..2 {
            let (_, replayed) = open(&disk, 0).unwrap();
            assert!(replayed.len() >= written, "{} of {written}", replayed.len());
            assert_eq!(replayed, payloads[..replayed.len()]);
        }
        if is_over {
            break;
        }
    }
    assert!(failed > 2, "{failed} segments failed to begin");
}
