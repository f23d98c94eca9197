//! Where nothing is sent.

use std::sync::atomic::Ordering;

use punctual::JobState;
use punctual::job::DeadReason;
use punctual_push::Guard;

use crate::support::{Scripted, Server, Under};

#[tokio::test]
async fn a_url_that_leads_inside_is_dead_at_once_and_nothing_is_sent() {
    let server = Server::start(200).await;
    // Nothing is opened: that the server is there makes it a trap.
    let under = Under::new(Guard::new());
    let port = server.address.port();
    for url in [
        server.url(),
        format!("http://2130706433:{port}/"),
        format!("http://localhost:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        format!("http://example.com:{port}\\@127.0.0.1:{port}/"),
        format!("http://example.com@127.0.0.1:{port}/"),
        "ftp://example.com/".to_owned(),
        "http://127.0.0.1/".to_owned(),
    ] {
        let job = under.post(&url).await;
        assert_eq!(job.dead, Some(DeadReason::Permanent), "{url}");
        let text = job.last_error.expect("an error");
        assert!(text.starts_with("target_refused: "), "{url}: {text}");
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn a_name_with_one_address_inside_is_refused_at_every_delivery() {
    let server = Server::start(200).await;
    for inner in [
        "127.0.0.1",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "192.0.2.1",
        "255.255.255.255",
        "::1",
        "::",
        "fc00::1",
        "fe80::1",
        "ff02::1",
        "2001:db8::1",
        "2001::1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
    ] {
        let answers: &[&[&str]] = &[&["93.184.216.34", inner]];
        let under = Under::new(Guard::new()).with(|pusher| pusher.resolver(Scripted::new(answers)));
        let job = under.post("http://hook.example:8080/").await;
        // A name may mean something else tomorrow: tried again by policy.
        assert_eq!(
            (job.state, job.failures),
            (JobState::Scheduled, 1),
            "{inner}"
        );
        let text = job.last_error.expect("an error");
        assert!(text.starts_with("target_refused: the address "), "{text}");
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn a_name_is_resolved_once_and_the_address_that_was_checked_is_used() {
    let open = Server::start(200).await;
    let port = open.address.port();
    // The second answer would be another host: there is no second question.
    let resolver = Scripted::new(&[&["127.0.0.1"], &["127.0.0.2"]]);
    let asked = resolver.clone();
    let place = format!("127.0.0.1:{port}").parse().expect("a place");
    let under =
        Under::new(Guard::new().allow([place])).with(|pusher| pusher.resolver(resolver.clone()));
    let url = format!("http://hook.example:{port}/");
    let job = under.post(&url).await;
    assert_eq!(job.state, JobState::Completed, "{:?}", job.last_error);
    assert_eq!(asked.asked.load(Ordering::SeqCst), 1);
    assert_eq!(
        open.seen()[0].header("host"),
        format!("hook.example:{port}")
    );

    // The next delivery asks again, and the address that it gets then is refused.
    let job = under.post(&url).await;
    let text = job.last_error.expect("an error");
    assert!(text.contains("127.0.0.2 is loopback"), "{text}");
    assert_eq!(asked.asked.load(Ordering::SeqCst), 2);
    assert_eq!(open.seen().len(), 1);
}

#[tokio::test]
async fn tls_is_checked_against_the_name() {
    let server = crate::tls::Server::start().await;
    let port = server.address.port();
    let resolver = || Scripted::new(&[&["127.0.0.1"]]);
    let place = || format!("127.0.0.1:{port}").parse().expect("a place");
    let guard = || {
        Guard::new().allow([
            place(),
            format!("localhost:{port}").parse().expect("a place"),
        ])
    };
    let trusting = Under::new(guard())
        .with(|pusher| pusher.resolver(resolver()).roots(vec![server.root.clone()]));
    let job = trusting.post(&format!("https://localhost:{port}/")).await;
    assert_eq!(job.state, JobState::Completed, "{:?}", job.last_error);

    for (under, host) in [
        (&trusting, "hook.example"),
        (
            &Under::new(guard()).with(|pusher| pusher.resolver(resolver())),
            "localhost",
        ),
    ] {
        let job = under.post(&format!("https://{host}:{port}/")).await;
        let text = job.last_error.expect("an error");
        assert!(
            text.starts_with("the TLS handshake failed"),
            "{host}: {text}"
        );
    }
}

#[tokio::test]
async fn an_expired_certificate_is_named_and_the_job_retried_until_renewal() {
    let expired = crate::tls::Server::expired().await;
    let renewed = crate::tls::Server::start().await;
    let places = [&expired, &renewed].map(|server| {
        let place = format!("localhost:{}", server.address.port());
        place.parse().expect("a place")
    });
    let roots = vec![expired.root.clone(), renewed.root.clone()];
    let under = Under::new(Guard::new().allow(places)).with(|pusher| {
        pusher
            .resolver(Scripted::new(&[&["127.0.0.1"]]))
            .roots(roots)
    });
    let host = format!("localhost:{}", expired.address.port());
    let job = under.post(&format!("https://{host}/")).await;
    let text = job.last_error.as_deref().expect("an error");
    assert!(text.starts_with("target_certificate_expired: "), "{text}");
    assert!(text.contains(&host) && text.contains("renew"), "{text}");
    // No mistake of the job: the operator of the target renews it, and the job is posted.
    assert_eq!((job.state, job.failures), (JobState::Scheduled, 1));
    assert!(job.due > under.now(), "by its policy");
    let host = format!("localhost:{}", renewed.address.port());
    let job = under.post(&format!("https://{host}/")).await;
    assert_eq!(job.state, JobState::Completed, "{:?}", job.last_error);
}
