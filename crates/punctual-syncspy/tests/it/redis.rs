//! What redis-server keeps over a power cut, by how its append-only file is synced.
//!
//! A counter is counted up; each number that it answered is acknowledged.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use punctual_syncspy::Tear;

use crate::program::Watched;

/// A redis-server under a spy.
struct Server {
    watched: Watched,
    sync: &'static str,
    child: Child,
    stream: BufReader<TcpStream>,
}

impl Server {
    fn start(sync: &'static str) -> Self {
        let watched = Watched::new();
        let (child, stream) = start(&watched, sync);
        Self {
            watched,
            sync,
            child,
            stream,
        }
    }

    fn restart(&mut self) {
        self.child.wait().expect("it is dead");
        (self.child, self.stream) = start(&self.watched, self.sync);
    }

    /// Sends some commands at once and answers the last number, if it lives.
    fn ask(&mut self, command: &str, times: usize) -> Option<u64> {
        let text = format!("{command}\r\n").repeat(times);
        self.stream.get_mut().write_all(text.as_bytes()).ok()?;
        let mut answer = None;
        for _ in 0..times {
            answer = Some(number(&mut self.stream)?);
        }
        answer
    }

    /// Counts up; answers the last number that was acknowledged.
    fn count(&mut self, times: usize) -> u64 {
        self.ask("INCR n", times).expect("it lives")
    }

    /// The number that is there.
    fn counted(&mut self) -> u64 {
        self.ask("INCRBY n 0", 1).expect("it lives")
    }

    fn syncs(&self) -> u64 {
        self.watched.spy.counts().expect("counts").syncs
    }

    fn power_cut(&mut self, seed: u64) {
        let cut = self.watched.spy.power_cut(seed, Tear::Prefix);
        cut.expect("a power cut");
        self.restart();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(watched: &Watched, sync: &str) -> (Child, BufReader<TcpStream>) {
    for _ in 0..50 {
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let mut command = Command::new("redis-server");
        command
            .args([
                "--bind",
                "127.0.0.1",
                "--port",
                &port.to_string(),
                "--save",
                "",
            ])
            .args(["--appendonly", "yes", "--appendfsync", sync])
            .arg("--dir")
            .arg(watched.data())
            .stdout(Stdio::null());
        let command = watched.spy.arm(&mut command).expect("it is built");
        let mut child = command.spawn().expect("redis-server is installed");
        while child.try_wait().expect("a child").is_none() {
            if let Some(stream) = connect(port) {
                return (child, stream);
            }
            std::thread::yield_now();
        }
    }
    panic!("redis-server does not start");
}

/// A connection to a server that has read back what it keeps.
fn connect(port: u16) -> Option<BufReader<TcpStream>> {
    let mut stream = BufReader::new(TcpStream::connect(("127.0.0.1", port)).ok()?);
    stream.get_mut().write_all(b"INCRBY n 0\r\n").ok()?;
    number(&mut stream).map(|_| stream)
}

fn number(stream: &mut BufReader<TcpStream>) -> Option<u64> {
    let mut line = String::new();
    stream.read_line(&mut line).ok()?;
    line.trim().strip_prefix(':')?.parse().ok()
}

#[test]
fn redis_that_syncs_always_loses_nothing_acknowledged() {
    let mut server = Server::start("always");
    let mut lost = 0;
    for seed in 0..12 {
        let acknowledged = server.count(1 + seed as usize * 7);
        // Sent and not read: the cut meets them anywhere.
        let text = "INCR n\r\n".repeat(20);
        server
            .stream
            .get_mut()
            .write_all(text.as_bytes())
            .expect("it lives");
        server.power_cut(seed);
        let there = server.counted();
        assert!(
            there >= acknowledged,
            "{acknowledged} were acknowledged, {there} are there"
        );
        lost += acknowledged + 20 - there;
    }
    println!("12 power cuts: 0 acknowledged writes lost, {lost} of 240 unanswered ones");
}

#[test]
fn redis_that_syncs_every_second_loses_what_came_since_its_last_syncs() {
    let mut server = Server::start("everysec");
    let mut losses = Vec::new();
    for seed in 0..3 {
        // Numbers, each with how many syncs had begun once it was acknowledged.
        let began = server.syncs();
        let mut acknowledged = Vec::new();
        while server.syncs() < began + 3 {
            let number = server.count(10);
            acknowledged.push((server.syncs(), number));
        }
        let all = server.count(100);
        acknowledged.push((server.syncs(), all));
        let last = server.syncs();
        server.power_cut(seed);
        let there = server.counted();
        losses.push(all.saturating_sub(there));
        for (syncs, number) in acknowledged {
            // A sync that is queued holds writes back, though what they say is acknowledged.
            assert!(
                syncs + 2 >= last || number <= there,
                "{number} was acknowledged after {syncs} of {last} syncs began, {there} are there"
            );
        }
    }
    assert!(
        losses.iter().any(|lost| *lost > 0),
        "it has to lose: {losses:?}"
    );
    println!("lost by 3 power cuts: {losses:?}, all since the last but one sync");
}

/// It answers while a write waits for a sync, so that even a kill takes what was acknowledged.
#[test]
fn redis_whose_sync_is_slow_loses_by_a_kill_alone() {
    let mut server = Server::start("everysec");
    let slow = Duration::from_millis(1_500);
    server.watched.spy.slow_sync(slow).expect("a fault");
    for tries in 1..=10 {
        let syncs = server.syncs();
        let before = server.counted();
        while server.syncs() == syncs {
            server.count(1);
        }
        let acknowledged = server.count(200);
        server.child.kill().expect("it is alive");
        server.restart();
        let there = server.counted();
        assert!(there >= before, "it was there after a start");
        if there < acknowledged {
            let lost = acknowledged - there;
            println!("lost by kill {tries}: {lost} acknowledged writes");
            return;
        }
    }
    panic!("ten kills during a slow sync lost nothing");
}

#[test]
fn redis_reads_the_clock_that_the_spy_sets() {
    let mut server = Server::start("everysec");
    let script = "EVAL \"return tonumber(redis.call('TIME')[1])\" 0";
    let hour = 3_600;
    let before = server.ask(script, 1).expect("it lives");
    for (shift, expected) in [(hour, before + 3_600), (-hour, before - 3_600), (0, before)] {
        let set = server.watched.spy.shift_clock(shift * 1_000_000);
        set.expect("a clock");
        let now = server.ask(script, 1).expect("it lives");
        let off = now.abs_diff(expected);
        assert!(off < 600, "{shift}: {now} is {off} s off {expected}");
    }
}
