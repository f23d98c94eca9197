//! Lines of jobs where an engine in several shards refuses some of them.

use punctual_redis::testing::TestServer;

use crate::outages::bulk;
use crate::serve::Server;
use crate::support::Punctual;

/// Only the lines that name a limit are refused, in the command and over HTTP alike.
#[test]
fn lines_with_limits_are_refused_one_by_one() {
    let server = TestServer::start();
    let redis = format!("{}?shards=3", server.address());
    let punctual = Punctual::new();
    let lines = [
        r#"{"queue":"mail","payload":1}"#,
        r#"{"queue":"mail","payload":2,"limits":["smtp"]}"#,
        r#"{"queue":"mail","payload":3}"#,
    ];
    let lines = format!("{}\n", lines.join("\n"));
    punctual.write("lines.jsonl", &lines);
    let args = ["enqueue", "--from", "lines.jsonl", "--engine", &redis];
    let ran = punctual.run(&args).exits(4);
    for reported in ["2 created", "1 unsupported", "line 2: refused"] {
        assert!(ran.stdout.contains(reported), "{reported}: {ran:?}");
    }
    assert!(ran.stderr.contains("without `shards`"), "{ran:?}");
    let serving = Server::start(&punctual, &["--engine", &redis]);
    let reported = bulk(&serving, &lines);
    assert_eq!(reported[0]["verdict"], "created", "{reported:?}");
    assert_eq!(reported[1]["error"]["code"], "unsupported", "{reported:?}");
    assert_eq!(reported[2]["verdict"], "created", "{reported:?}");
    assert_eq!(reported[3]["accepted"], 2, "{reported:?}");
}
