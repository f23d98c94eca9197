//! What an answer does to the job.

use std::io::Write;
use std::sync::Arc;

use punctual::JobState;
use punctual::job::DeadReason;
use punctual::time::{Stopwatch, hours, millis, seconds};
use punctual_push::Guard;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::support::{Answer, Server, Under, job};

#[tokio::test]
async fn two_hundreds_complete_with_a_small_body_as_the_result() {
    let server = Server::start(200).await;
    let under = Under::new(server.guard());
    for (status, body, kept) in [
        (200, vec![], None),
        (201, b"{\"ok\":true}".to_vec(), Some(11)),
        (202, vec![b'x'; 1_024], Some(1_024)),
        (200, vec![b'x'; 1_025], None),
        (200, vec![b'x'; 4 << 20], None),
        (204, vec![], None),
    ] {
        let bytes = body.len();
        server.answers(Answer {
            status,
            body,
            ..Answer::default()
        });
        let job = under.post(&server.url()).await;
        assert_eq!(
            job.state,
            JobState::Completed,
            "{status} with {bytes} bytes"
        );
        assert_eq!(job.result.map(|result| result.len()), kept, "{bytes}");
    }
}

#[tokio::test]
async fn gone_is_dead_and_all_else_is_tried_again() {
    let server = Server::start(410).await;
    let under = Under::new(server.guard());
    let job = under.post(&server.url()).await;
    assert_eq!(job.dead, Some(DeadReason::Permanent));
    assert_eq!(job.last_error.as_deref(), Some("target answered 410 Gone"));
    for status in [301, 302, 307, 308, 400, 401, 404, 422, 429, 500, 502] {
        server.status(status);
        let job = under.post(&server.url()).await;
        assert_eq!(
            (job.state, job.failures),
            (JobState::Scheduled, 1),
            "{status}"
        );
        let text = job.last_error.expect("an error");
        assert!(text.contains(&status.to_string()), "{text}");
    }
}

#[tokio::test]
async fn no_redirect_is_followed() {
    let inner = Server::start(200).await;
    let server = Server::start(307).await;
    let under = Under::new(server.guard().allow([inner.allow()]));
    server.answers(Answer {
        status: 307,
        headers: vec![("location", inner.url())],
        ..Answer::default()
    });
    let job = under.post(&server.url()).await;
    let text = job.last_error.expect("an error");
    assert!(text.starts_with("target_redirect_refused"), "{text}");
    assert!(text.contains(&inner.url()), "{text}");
    assert!(inner.seen().is_empty());
}

#[tokio::test]
async fn retry_after_sets_the_due_and_counts_as_a_failure() {
    let server = Server::start(503).await;
    for (text, wait) in [
        ("3600", hours(1)),
        ("Mon, 21 Sep 2026 16:13:20 GMT", hours(2)),
        ("0", seconds(1)),
        ("999999999", hours(24)),
    ] {
        server.answers(Answer {
            status: 429,
            headers: vec![("retry-after", text.to_owned())],
            ..Answer::default()
        });
        let under = Under::new(server.guard());
        let job = under.post(&server.url()).await;
        // Engine time never stands still: some microseconds have passed by then.
        let waits = job.due - under.now();
        assert!(
            waits >= wait && waits < wait + seconds(1),
            "{text}: {waits:?}"
        );
        assert_eq!(job.failures, 1);
    }
}

#[tokio::test]
async fn the_last_failure_is_the_end() {
    let server = Server::start(500).await;
    let under = Under::new(server.guard());
    let mut once = job(&server.url());
    once.max_attempts = 1;
    let id = under.send(once).await;
    under.run().await;
    assert_eq!(under.get(id).await.dead, Some(DeadReason::Exhausted));
}

#[tokio::test]
async fn a_target_that_says_nothing_is_given_up_at_the_timeout() {
    let server = Server::start(200).await;
    server.answers(Answer {
        status: 200,
        held: Some(Arc::default()),
        ..Answer::default()
    });
    let under = Under::new(server.guard()).with(|pusher| pusher.timeout(millis(200)));
    let job = under.post(&server.url()).await;
    assert_eq!((job.state, job.failures), (JobState::Scheduled, 1));
    let text = job.last_error.expect("an error");
    assert_eq!(text, "target_timeout: target did not answer within 200ms");
}

#[tokio::test]
async fn a_timeout_of_the_job_goes_before_that_of_the_worker() {
    let server = Server::start(200).await;
    server.answers(Answer {
        status: 200,
        held: Some(Arc::default()),
        ..Answer::default()
    });
    let under = Under::new(server.guard());
    let mut short = job(&server.url());
    short.timeout = Some(millis(100));
    let id = under.send(short).await;
    under.run().await;
    let text = under.get(id).await.last_error.expect("an error");
    assert!(text.contains("did not answer"), "{text}");
}

/// A server that writes these bytes and more, one a second, for ever.
async fn trickle(head: &'static [u8]) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut asked = [0; 4_096];
                let _ = stream.read(&mut asked).await;
                let mut rest = head.iter().chain(std::iter::repeat(&b'x'));
                for byte in &mut rest {
                    if stream.write_all(&[*byte]).await.is_err() {
                        return;
                    }
                    punctual::time::pause(seconds(1)).await;
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn a_head_of_one_byte_a_second_holds_its_slot_no_longer_than_the_timeout() {
    let address = trickle(b"HTTP/1.1 200 OK\r\nx: ").await;
    let guard = Guard::new().allow([address.to_string().parse().expect("a place")]);
    let under = Under::new(guard).with(|pusher| pusher.timeout(millis(300)));
    let watch = Stopwatch::start();
    let job = under.post(&format!("http://{address}/")).await;
    assert_eq!((job.state, job.failures), (JobState::Scheduled, 1));
    assert!(watch.elapsed() < seconds(30), "{:?}", watch.elapsed());
}

#[tokio::test]
async fn a_body_without_end_is_cut_soon_and_the_head_counts() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let (report, reported) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("it comes");
        let mut asked = [0; 4_096];
        let _ = stream.read(&mut asked).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        let mut written = 0;
        while stream.write_all(&[b'x'; 16 << 10]).await.is_ok() {
            written += 16 << 10;
        }
        report.send(written).expect("the test waits");
    });
    let place = address.to_string().parse().expect("a place");
    let under = Under::new(Guard::new().allow([place]));
    let job = under.post(&format!("http://{address}/")).await;
    assert_eq!((job.state, job.result), (JobState::Completed, None));
    // Most of it is what the system's buffers take.
    let written: usize = reported.await.expect("it was cut");
    assert!(written < 64 << 20, "{written} bytes were taken");
}

/// 900 KB of nothing in under a kilobyte; a hundred of them in a row are 90 MB.
fn bomb() -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&vec![0; 900_000]).expect("it is taken");
    gzip.finish().expect("gzip")
}

#[tokio::test]
async fn a_body_that_would_swell_is_kept_as_it_came_or_not_at_all() {
    let server = Server::start(200).await;
    let under = Under::new(server.guard());
    let one = bomb();
    assert!(one.len() <= 1_024, "{} bytes", one.len());
    for (body, kept) in [(one.clone(), Some(one.clone())), (one.repeat(100), None)] {
        server.answers(Answer {
            status: 200,
            headers: vec![("content-encoding", "gzip".to_owned())],
            body,
            ..Answer::default()
        });
        let job = under.post(&server.url()).await;
        assert_eq!(job.state, JobState::Completed);
        assert_eq!(job.result.map(|result| result.to_vec()), kept);
    }
    // Nor is one asked for.
    for seen in server.seen() {
        assert_eq!(seen.header("accept-encoding"), "identity");
    }
}

#[tokio::test]
async fn a_head_without_end_is_refused() {
    // The parser gives up at its bound.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let flood = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut asked = [0; 4_096];
            let _ = stream.read(&mut asked).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nx: ").await;
            while stream.write_all(&[b'x'; 1_024]).await.is_ok() {}
        }
    });
    let place = flood.to_string().parse().expect("a place");
    let under = Under::new(Guard::new().allow([place]));
    let job = under.post(&format!("http://{flood}/")).await;
    assert_eq!((job.state, job.failures), (JobState::Scheduled, 1));
}

#[tokio::test]
async fn a_port_without_a_server_is_a_failure_that_says_so() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let guard = Guard::new().allow([address.to_string().parse().expect("a place")]);
    let job = Under::new(guard).post(&format!("http://{address}/")).await;
    let text = job.last_error.expect("an error");
    assert!(text.contains("could not be reached"), "{text}");
    assert_eq!(job.failures, 1);
}
