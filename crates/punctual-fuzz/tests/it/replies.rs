//! Fuzzes replies of the Redis functions.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use punctual::engine::{
    Claim, Extend, LeaseReport, Settle, Settlement, StatsRequest, Target, WorkerId,
};
use punctual::time::seconds;
use punctual::{Engine, Namespace, NewJob, Outcome};
use punctual_fuzz::fuzz;
use punctual_redis::RedisEngine;
use punctual_redis::testing::{TestServer, read_replies};

/// Packed replies of the functions, as a server sent them.
fn recorded() -> Vec<Vec<u8>> {
    let server = TestServer::start();
    let received = Arc::new(Mutex::new(Vec::new()));
    let port = tap(server.port(), &received);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let options = format!("redis://127.0.0.1:{port}")
            .parse()
            .expect("an address");
        let engine = RedisEngine::connect(options)
            .await
            .expect("the server is there");
        let here = Namespace::default();
        let job = || NewJob::new("orders", "{}");
        let jobs = vec![job(), job(), job()];
        let targets = jobs.iter().map(|job| Target::Id(job.id)).collect();
        engine.enqueue(&here, jobs).await.expect("enqueue");
        let claimed = engine
            .claim(&here, Claim::new(WorkerId(5), "orders", 2))
            .await
            .expect("claim");
        let lease = &claimed.leases[0];
        let extend = Extend::new(lease.token, seconds(10));
        engine.extend(&here, vec![extend]).await.expect("extend");
        let end = Settlement::new(lease.jobs[0].id, 1, Outcome::Completed);
        let leases = vec![LeaseReport::new(lease.token, vec![end])];
        engine
            .settle(&here, Settle::new(leases))
            .await
            .expect("settle");
        engine.get(&here, targets, true).await.expect("get");
        engine
            .stats(&here, StatsRequest::default())
            .await
            .expect("stats");
        engine.info().await.expect("info");
        engine.maintain().await.expect("maintain");
    });
    let received = received
        .lock()
        .expect("no other thread panics with it")
        .clone();
    received
        .iter()
        .flat_map(|stream| texts(stream))
        .filter(|text| text.len() < 4096)
        .collect()
}

/// A port that leads to a server, and notes what the server says, connection by connection.
fn tap(server: u16, received: &Arc<Mutex<Vec<Vec<u8>>>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let received = received.clone();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else {
                return;
            };
            let (mut to, mut from) = (server.try_clone().expect("a socket"), client);
            let mut back = from.try_clone().expect("a socket");
            std::thread::spawn(move || {
                std::io::copy(&mut from, &mut to).is_ok() && to.shutdown(Shutdown::Both).is_ok()
            });
            let received = received.clone();
            std::thread::spawn(move || note(server, &mut back, &received));
        }
    });
    port
}

fn note(mut server: TcpStream, client: &mut TcpStream, received: &Mutex<Vec<Vec<u8>>>) {
    let mut part = [0; 4096];
    let at = {
        let mut received = received.lock().expect("no other thread panics with it");
        received.push(Vec::new());
        received.len() - 1
    };
    while let Ok(len @ 1..) = server.read(&mut part) {
        received.lock().expect("no other thread panics with it")[at].extend(&part[..len]);
        if client.write_all(&part[..len]).is_err() {
            return;
        }
    }
}

/// The texts of a stream of replies, each after its length.
fn texts(mut stream: &[u8]) -> Vec<Vec<u8>> {
    let mut texts = Vec::new();
    while let Some(end) = stream.windows(2).position(|pair| pair == b"\r\n") {
        let (line, rest) = (&stream[..end], &stream[end + 2..]);
        stream = rest;
        let length = line
            .strip_prefix(b"$")
            .and_then(|text| std::str::from_utf8(text).ok());
        let Some(length) = length.and_then(|text| text.parse::<usize>().ok()) else {
            continue;
        };
        let Some(text) = rest.get(..length) else {
            return texts;
        };
        texts.push(text.to_vec());
        stream = &rest[length..];
    }
    texts
}

#[test]
fn packed_replies_are_read_or_refused() {
    let seeds = recorded();
    assert!(seeds.len() > 5, "{} replies were received", seeds.len());
    let ran = fuzz("replies", seeds, 40_000, read_replies);
    println!("{ran:?}");
}
