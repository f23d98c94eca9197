//! Unit tests of `replicas`.

use futures_util::future::poll_immediate;
use punctual_redis::testing::TestServer;

use super::*;
use crate::options::Options;
use crate::transport::address::Host;
use crate::transport::link::Dialer;

fn set(key: &str) -> Cmd {
    let mut set = cmd("SET");
    set.arg(key).arg("done");
    set
}

/// There are no replicas: the first change holds the connection until it is said that they are too
/// few.
#[tokio::test]
async fn a_change_of_a_gone_caller_is_not_sent_with_those_of_others() {
    let server = TestServer::start();
    let options: Options = server.address().parse().expect("an address");
    let host = Host {
        name: "127.0.0.1".into(),
        port: server.port(),
    };
    let dialer = Dialer::new(&options).expect("a dialer");
    let replicas = Replicas::new(1, Link::new(host, dialer));
    let [first, gone, last] = ["first", "gone", "last"].map(set);
    let mut first = Box::pin(replicas.send(&first));
    assert!(poll_immediate(&mut first).await.is_none(), "it waits");
    let mut waits = Box::pin(replicas.send(&gone));
    assert!(poll_immediate(&mut waits).await.is_none(), "it waits too");
    drop(waits);
    for reached in [first.await, replicas.send(&last).await] {
        let reached = reached.expect("a connection");
        assert!(matches!(reached, Reached::TooFew(0)), "{reached:?}");
    }
    assert_eq!(server.cli(&["EXISTS", "first", "last"]).trim(), "2");
    assert_eq!(server.cli(&["EXISTS", "gone"]).trim(), "0");
}
