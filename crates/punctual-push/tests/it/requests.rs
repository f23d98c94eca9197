//! What a target is sent.

use punctual::NewJob;
use punctual::time::{minutes, seconds};
use punctual_push::Guard;

use crate::support::{START, Server, Under, job};

#[tokio::test]
async fn a_job_is_posted_with_its_fields_as_headers() {
    let server = Server::start(200).await;
    let under = Under::new(server.guard());
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let sent = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut new = job(&server.url())
        .kind("mail.send")
        .content_type("text/plain; charset=utf-8")
        .payload("grüße".into())
        .unique_with("mail:7", Default::default(), Default::default())
        .group_with("ann", Default::default())
        .priority(3)
        .max_attempts(7);
    new.headers.extend([
        sent("traceparent", trace),
        sent("X-Shop", "eu"),
        sent("Authorization", "Bearer of-the-target"),
        // None of these is the job's to say.
        sent("Host", "evil.example"),
        sent("Content-Length", "1"),
        sent("Transfer-Encoding", "chunked"),
        sent("webhook-id", "forged"),
        sent("Punctual-Attempt", "99"),
    ]);
    let id = under.send(new).await;
    under.run().await;

    let seen = server.seen();
    assert_eq!(seen.len(), 1);
    let request = &seen[0];
    assert_eq!(request.path, "/hook?a=1");
    assert_eq!(request.body, "grüße".as_bytes());
    let id = id.to_string();
    let address = server.address.to_string();
    for (name, wanted) in [
        ("host", &*address),
        ("content-type", "text/plain; charset=utf-8"),
        ("content-length", "7"),
        ("transfer-encoding", ""),
        ("traceparent", trace),
        ("x-shop", "eu"),
        ("authorization", "Bearer of-the-target"),
        ("webhook-id", &id),
        ("webhook-timestamp", "1790000000"),
        ("webhook-signature", ""),
        ("punctual-id", &id),
        ("punctual-namespace", "default"),
        ("punctual-queue", "http:mail"),
        ("punctual-kind", "mail.send"),
        ("punctual-attempt", "1"),
        ("punctual-failures", "0"),
        ("punctual-crashes", "0"),
        ("punctual-max-attempts", "7"),
        ("punctual-priority", "3"),
        ("punctual-due", &START.to_string()),
        ("punctual-unique", "mail:7"),
        ("punctual-group", "ann"),
        ("punctual-target", ""),
    ] {
        assert_eq!(request.header(name), wanted, "{name}");
        assert!(request.headers.get_all(name).iter().count() <= 1, "{name}");
    }
}

#[tokio::test]
async fn every_attempt_has_the_same_id_and_a_signature_of_its_own_time() {
    let server = Server::start(500).await;
    let old = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let new = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    let secrets = [new, old].map(|text| text.parse().expect("a secret"));
    let under = Under::new(server.guard()).with(|pusher| pusher.secrets(secrets.into()));
    let mut fixed = job(&server.url());
    fixed.id = "01994f2e-8a51-7c3e-8000-3f0f4c1d2b7a"
        .parse()
        .expect("an id");
    fixed.retry = punctual::RetryPolicy::fixed(minutes(1));
    under.send(fixed).await;
    under.run().await;
    under.clock.advance(minutes(1) + seconds(1));
    under.run().await;

    let seen = server.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].header("webhook-id"), seen[1].header("webhook-id"));
    assert_eq!(seen[1].header("punctual-attempt"), "2");
    // From `hmac.new(key, b"01994f2e-8a51-7c3e-8000-3f0f4c1d2b7a.1790000000." + body, sha256)`.
    assert_eq!(seen[0].header("webhook-signature"), SIGNED_AT_START);
    assert_ne!(
        seen[0].header("webhook-signature"),
        seen[1].header("webhook-signature")
    );
}

const SIGNED_AT_START: &str = "v1,7j4fVDGK7cRueQ98FVdaShkDsrx/ap2oXXnSTVPQ8RQ= v1,+PficIMqUrxpdXQeJhG9JAcofWYqojZCI8nsg8/lbs8=";

#[tokio::test]
async fn a_job_without_a_target_goes_to_that_of_the_worker_or_is_delayed() {
    let server = Server::start(204).await;
    let aimless = || {
        NewJob::new("mail", "")
            .queue("http:mail")
            .retention(seconds(60))
    };
    // Its own URL is the operator's: it needs no opening.
    let under = Under::new(Guard::new()).with(|pusher| pusher.target(server.url()));
    let id = under.send(aimless()).await;
    under.run().await;
    assert_eq!(under.get(id).await.state, punctual::JobState::Completed);
    assert_eq!(server.seen().len(), 1);

    let under = Under::new(server.guard());
    let id = under.send(aimless()).await;
    under.run().await;
    let job = under.get(id).await;
    assert_eq!(
        (job.state, job.failures),
        (punctual::JobState::Scheduled, 0)
    );
    assert_eq!(server.seen().len(), 1);
}
