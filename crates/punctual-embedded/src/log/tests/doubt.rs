//! Unit tests of `log::tests::doubt`.

use super::*;

/// A log whose last sync failed, and whose process was killed then: all is read, not all is on
/// disk.
fn doubtful(payloads: &[Vec<u8>], synced: usize) -> ForgetfulDisk {
    let disk = ForgetfulDisk::default();
    let options = LogOptions {
        segment_bytes: 1_500,
        ..SMALL
    };
    let mut log = Log::begin(Arc::new(disk.clone()), options, INSTANCE, 0).unwrap();
    write(&mut log, &disk, &payloads[..synced]).1.unwrap();
    for payload in &payloads[synced..] {
        if log.is_long() {
            log.roll().unwrap();
        }
        log.stage(payload, synced as u64);
        log.write().unwrap();
    }
    disk.fail_syncs(true);
    for (name, _) in disk.names().unwrap() {
        disk.open(&name).unwrap().sync().unwrap_err();
    }
    disk.crash(Crash::Kill)
}

#[test]
fn what_a_failed_sync_left_in_doubt_is_on_disk_once_it_was_read_back() {
    let payloads = payloads(12);
    for synced in 0..12 {
        let disk = doubtful(&payloads, synced);
        assert_eq!(open(&disk, 0).unwrap().1, payloads);
        let disk = disk.crash(cut(0));
        assert_eq!(open(&disk, 0).unwrap().1, payloads, "{synced} were synced");
    }
}

#[test]
fn a_stop_while_a_doubtful_end_is_copied_loses_nothing_synced() {
    let payloads = payloads(12);
    let mut stops = 0;
    for synced in [0, 3, 9] {
        for stop in 0.. {
            let disk = doubtful(&payloads, synced);
            disk.at_operation(stop, Fault::Stops { written: 9 });
            let done = open(&disk, 0).is_ok();
            // Killed, all is there; over a power cut at least what was synced, and twice the same.
            let killed = disk.crash(Crash::Kill);
            assert_eq!(open(&killed, 0).unwrap().1, payloads, "stop {stop}");
            for crash in [cut(0), cut(u64::MAX), cut(stop * 0x9e37)] {
                let disk = disk.crash(crash);
                let (_, first) = open(&disk, 0).unwrap();
                assert!(first.len() >= synced, "stop {stop}: {}", first.len());
                assert_eq!(first, payloads[..first.len()], "stop {stop}");
                let disk = disk.crash(cut(!stop));
                assert_eq!(open(&disk, 0).unwrap().1, first, "stop {stop}");
            }
            stops += 1;
            if done {
                break;
            }
        }
    }
    assert!(stops > 100, "{stops}");
}

#[test]
fn a_doubtful_end_is_copied_in_pieces_that_fit_a_nearly_full_disk() {
    let payloads = payloads(12);
    let disk = doubtful(&payloads, 0);
    let used: u64 = disk.names().unwrap().iter().map(|(_, bytes)| bytes).sum();
    let largest = payloads.iter().map(Vec::len).max().unwrap_or(0) + record::RECORD_BYTES;
    disk.set_capacity(Some(used + (largest + 2 * HEADER_BYTES) as u64));
    open(&disk, 0).unwrap();
    let disk = disk.crash(cut(0));
    assert_eq!(open(&disk, 0).unwrap().1, payloads);
}

#[test]
fn commits_in_two_segments_are_read_once_and_a_short_copy_is_damage() {
    let payloads = payloads(6);
    let whole = segment(1, BOOT, &payloads);
    let from = |first: u64| segment(first, BOOT, &payloads[first as usize - 1..]);
    let one = |first: u64| segment(first, BOOT, &payloads[first as usize - 1..first as usize]);
    let torn = &whole[..whole.len() - 1];
    let (four, five, six) = (one(4), one(5), one(6));
    let (from_4, from_5) = (from(4), from(5));
    let readable = [
        vec![&whole[..], &from_4],
        vec![torn, &from_4],
        vec![torn, &six],
        vec![torn, &four, &five, &six],
        vec![&whole, &four, &from_5],
    ];
    for segments in readable {
        let named: Vec<_> = segments.into_iter().map(|bytes| ("log", bytes)).collect();
        let (tail, replayed) = recover(&named, 0);
        let tail = tail.expect("nothing is missing");
        assert_eq!((tail.last, tail.cut), (6, None));
        assert_eq!(replayed, payloads);
    }
    let damaged = [
        vec![&whole[..], &from_4[..from_4.len() - 1]],
        vec![&whole, &four],
        vec![&whole, &four, &six],
    ];
    for segments in damaged {
        let named: Vec<_> = segments.into_iter().map(|bytes| ("log", bytes)).collect();
        let refused = recover(&named, 0).0.expect_err("a copy is whole");
        assert_eq!(refused.kind(), ErrorKind::DataDamaged);
    }
}
