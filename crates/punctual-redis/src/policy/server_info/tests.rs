//! Unit tests of `server_info`.

use super::*;

fn good() -> ServerInfo {
    ServerInfo {
        host: "h:6379".into(),
        version: "redis 7.0.15".into(),
        maxmemory_policy: "noeviction".into(),
        appendonly: true,
        appendfsync: "always".into(),
        ..ServerInfo::default()
    }
}

fn refusal(server_info: &ServerInfo, asked: Option<Durability>) -> String {
    server_info.keeps(asked).expect_err("refused").to_string()
}

#[test]
fn a_server_keeps_the_most_it_is_set_up_for() {
    let every_second = ServerInfo {
        appendfsync: "everysec".into(),
        ..good()
    };
    let in_memory = ServerInfo {
        appendonly: false,
        ..good()
    };
    assert_eq!(good().keeps(None).unwrap(), Durability::Fsync);
    assert_eq!(every_second.keeps(None).unwrap(), Durability::Os);
    assert_eq!(in_memory.keeps(None).unwrap(), Durability::Memory);
}

#[test]
fn what_cannot_be_kept_is_refused_with_the_remedy() {
    let wrong = |change: fn(&mut ServerInfo), asked, remedy: &str| {
        let mut server_info = good();
        change(&mut server_info);
        let said = refusal(&server_info, asked);
        assert!(said.contains(remedy), "{said}");
    };
    let fsync = Some(Durability::Fsync);
    wrong(|it| it.appendonly = false, fsync, "appendonly yes");
    wrong(
        |it| it.appendonly = false,
        Some(Durability::Os),
        "appendonly yes",
    );
    wrong(
        |it| it.appendfsync = "everysec".into(),
        fsync,
        "appendfsync always",
    );
    wrong(
        |it| it.no_fsync_on_rewrite = true,
        fsync,
        "no-appendfsync-on-rewrite no",
    );
    wrong(
        |it| it.unreadable = vec!["appendfsync".into()],
        fsync,
        "+config|get",
    );
    let unreadable = |it: &mut ServerInfo| it.appendfsync = String::new();
    wrong(unreadable, Some(Durability::Os), "+config|get");
    wrong(|_| (), Some(Durability::Replica(1)), "has 0 connected");
    wrong(
        |it| it.maxmemory_policy = "allkeys-lru".into(),
        None,
        "noeviction",
    );
    wrong(
        |it| it.version = "redis 6.2.14".into(),
        None,
        "Redis 7.0 or later",
    );
}

#[test]
fn an_always_that_pauses_for_rewrites_is_asked_for_or_refused() {
    let pauses = ServerInfo {
        no_fsync_on_rewrite: true,
        ..good()
    };
    let said = refusal(&pauses, None);
    assert!(said.contains("no-appendfsync-on-rewrite no"), "{said}");
    let os = Durability::Os;
    assert_eq!(pauses.keeps(Some(os)).unwrap(), os);
    let every_second = ServerInfo {
        appendfsync: "everysec".into(),
        ..pauses
    };
    assert_eq!(every_second.keeps(None).unwrap(), os);
}

#[test]
fn a_file_that_is_never_synced_is_memory() {
    let never = ServerInfo {
        appendfsync: "no".into(),
        ..good()
    };
    assert_eq!(never.keeps(None).unwrap(), Durability::Memory);
    let unread = ServerInfo {
        appendfsync: String::new(),
        ..good()
    };
    assert_eq!(unread.keeps(None).unwrap(), Durability::Memory);
    let said = refusal(&never, Some(Durability::Os));
    assert!(said.contains("appendfsync everysec"), "{said}");
}
