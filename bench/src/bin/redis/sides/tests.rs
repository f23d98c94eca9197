//! Unit tests of `sides`.

use super::*;

/// A side of which the first worker is done before the second one is ready.
fn hasty() -> Side {
    let script = r#"
        mkdir "$TURN" 2>/dev/null && first=yes
        [ -n "$first" ] || until [ -e "$TURN/done" ]; do :; done
        echo '{"ready":true}'
        echo '{"done":5,"first":100,"last":200,"late":[]}'
        [ -z "$first" ] || touch "$TURN/done"
        cat >/dev/null
    "#;
    let folder = std::env::temp_dir().join(format!("punctual-hasty-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let script = script.replace("$TURN", &folder.display().to_string());
    Side {
        words: vec!["sh".into(), "-c".into(), script],
        ..all().swap_remove(0)
    }
}

#[test]
fn what_a_worker_did_before_the_others_were_ready_counts() {
    let server = Server::start();
    let mut workers = hasty().work(&server, 2).expect("both start");
    let seen = workers.until_or_silent(10, Duration::from_secs(1));
    assert_eq!(seen.done, 10);
    assert_eq!(seen.seconds(), 1e-4);
}
