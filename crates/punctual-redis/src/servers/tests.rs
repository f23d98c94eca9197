//! Unit tests of `servers`.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use futures_util::future::join_all;
use punctual::time::seconds;
use redis::cmd;
use tokio::net::TcpListener;

use super::*;

/// A server that takes connections and says nothing; counts them.
async fn silent_one(taken: Arc<AtomicUsize>) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await;
    let listener = listener.expect("the loopback has a free port");
    let port = listener.local_addr().expect("it is bound").port();
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            taken.fetch_add(1, SeqCst);
            held.push(stream);
        }
    });
    port
}

/// No server says which one answers for what: each call ends at its deadline, and all of them have
/// asked once, not one after the other.
#[tokio::test]
async fn calls_end_at_their_deadline_where_the_source_is_silent() {
    for (scheme, path) in [("redis+cluster", ""), ("redis+sentinel", "/main")] {
        let taken = Arc::new(AtomicUsize::new(0));
        let ports = [
            silent_one(taken.clone()).await,
            silent_one(taken.clone()).await,
        ];
        let [one, two] = ports.map(|port| format!("127.0.0.1:{port}"));
        let options = format!("{scheme}://{one},{two}{path}").parse();
        let options: Options = options.expect("a good address");
        let servers = Servers::new(&options, Library::production()).expect("no files are read");
        let (slot, ping) = (Slot::of_tag("a"), cmd("PING"));
        let call = || servers.call(slot, &ping, Kind::Reads, Deadline::within(seconds(1)));
        let calls = join_all((0..20).map(|_| call()));
        let answers = within(seconds(2), calls).await.expect("by their deadline");
        for answer in answers {
            let error = answer.expect_err("no server answers");
            assert_eq!(error.kind(), ErrorKind::EngineUnavailable, "{error}");
            let is_named = error.message().contains(&one) || error.message().contains(&two);
            assert!(is_named, "{error}");
        }
        let polls = servers.masters(Deadline::within(seconds(1)));
        let error = within(seconds(2), polls).await.expect("by its deadline");
        assert_eq!(
            error.expect_err("no server answers").kind(),
            ErrorKind::EngineUnavailable
        );
        let taken = taken.load(SeqCst);
        assert!(
            taken <= 8,
            "{taken} connections to two servers in two seconds"
        );
    }
}
