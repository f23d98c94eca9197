//! Doctor's checks of Redis servers: settings, durability, memory and disk.

use std::time::Duration;

use punctual::engine::Durability;
use punctual::time::format_span;
use punctual_redis::{RedisEngine, ServerInfo};

use super::Check;
use crate::connect::Address;
use crate::failure::Result;
use crate::output::count;

/// One line per question and server; none for an engine without servers.
pub(super) async fn checks(address: &Address) -> Result<Vec<Check>> {
    let Address::Redis(address) = address else {
        return Ok(Vec::new());
    };
    let options = address.options()?;
    let asked = options.asked_durability();
    let mut checks = Vec::new();
    if options.is_in_the_clear() {
        checks.push(Check::warning(
            "network",
            "passwords and jobs are sent unencrypted, as ?plaintext=allow permits",
            "use TLS, as docs/engines/redis.md describes, unless the network is private",
        ));
    }
    let server_infos = RedisEngine::examine(options).await?;
    checks.extend(clocks(&server_infos));
    // A replica stands behind its master.
    let mut promised = None;
    for server_info in &server_infos {
        if let Some(why) = &server_info.silent {
            checks.push(silent(server_info, why));
            continue;
        }
        checks.push(server(server_info));
        let is_behind_its_master = server_info.replica_of.is_some()
            && server_infos
                .iter()
                .any(|it| Some(&it.host) == server_info.replica_of.as_ref());
        if is_behind_its_master {
            checks.push(could_keep(server_info, promised));
        } else {
            checks.extend(role(server_info));
            promised = server_info.keeps(asked).ok();
            checks.push(keeps(server_info, asked));
        }
        checks.extend(memory(server_info));
        checks.extend(troubles(server_info, asked));
    }
    Ok(checks)
}

/// Clocks that are further apart are worth a warning.
const CLOCKS_APART_US: u64 = 500_000;

/// Whether the clocks of all servers agree: engine time goes by that of the master, and any server
/// may become it.
fn clocks(server_infos: &[ServerInfo]) -> Option<Check> {
    let clocks = server_infos
        .iter()
        .filter_map(|it| Some((it.clock_offset_us?, it.host.as_str())));
    let (first, last) = (clocks.clone().min()?, clocks.max()?);
    let apart = last.0.abs_diff(first.0);
    if server_infos.len() < 2 {
        return None;
    }
    let span = format_span(Duration::from_millis(apart / 1_000));
    if apart < CLOCKS_APART_US {
        let finding = format!("the servers' clocks are at most {span} apart");
        return Some(Check::good("clock", finding));
    }
    Some(Check::warning(
        "clock",
        format!(
            "the clock of redis at {} is {span} ahead of that at {}",
            last.1, first.1
        ),
        "synchronise them (NTP): if the one ahead becomes master, jobs run that much early, and after it \
         nothing falls due for as long",
    ))
}

/// Whether a server takes changes, which a replica that the address names does not.
fn role(server_info: &ServerInfo) -> Option<Check> {
    let master = server_info.replica_of.as_ref()?;
    Some(Check::wrong(
        "role",
        format!(
            "redis at {} is a replica of {master} and accepts no writes",
            server_info.host
        ),
        "use the address of its master or of its sentinels",
    ))
}

fn silent(server_info: &ServerInfo, why: &str) -> Check {
    let master = server_info.replica_of.as_deref().unwrap_or_default();
    Check::warning(
        "server",
        format!(
            "redis at {}, a replica of {master}, cannot be checked: {why}",
            server_info.host
        ),
        "check that it runs, accepts the same user and password, and that its name resolves here",
    )
}

/// A replica that becomes master keeps what it is set up for, not what the master before it was.
fn could_keep(server_info: &ServerInfo, promised: Option<Durability>) -> Check {
    let how = how(server_info);
    let promised = promised.unwrap_or(Durability::Memory);
    match server_info.could_keep(promised) {
        Ok(Durability::Replica(_)) if !server_info.appendonly => Check::warning(
            "keeps",
            format!("{promised} as its master: {how}"),
            "set appendonly yes on it: without it starts again with an old snapshot, and may be made master with that",
        ),
        Ok(_) => Check::good("keeps", format!("{promised} as its master: {how}")),
        Err(error) => {
            let (what, remedy) = in_two(error.message());
            Check::warning("keeps", format!("once it is master {what} ({how})"), remedy)
        }
    }
}

fn server(server_info: &ServerInfo) -> Check {
    let follows = server_info.replica_of.as_ref();
    let follows = follows.map_or(String::new(), |master| format!(", a replica of {master}"));
    let finding = format!(
        "{} at {}{follows}, functions {} of {}",
        server_info.version,
        server_info.host,
        server_info
            .functions
            .map_or("none".into(), |version| version.to_string()),
        RedisEngine::functions_version(),
    );
    match server_info.functions {
        Some(version) if version > RedisEngine::functions_version() => Check::warning(
            "server",
            finding,
            "a newer punctual uses this server; upgrade this one",
        ),
        _ => Check::good("server", finding),
    }
}

fn how(server_info: &ServerInfo) -> String {
    match (server_info.appendonly, server_info.appendfsync.as_str()) {
        (false, _) => "appendonly no".to_owned(),
        (true, "") => "appendonly yes, appendfsync not readable".to_owned(),
        (true, when) => format!("appendonly yes, appendfsync {when}"),
    }
}

/// What is wrong, and the remedy.
pub(super) fn in_two(message: &str) -> (&str, &str) {
    message
        .split_once("; ")
        .unwrap_or((message, "check its settings"))
}

fn keeps(server_info: &ServerInfo, asked: Option<Durability>) -> Check {
    let how = how(server_info);
    match server_info.keeps(asked) {
        Ok(durability @ Durability::Replica(_)) if !server_info.appendonly => Check::warning(
            "keeps",
            format!("{durability}: {how}"),
            "set appendonly yes on it and every replica: one without starts again with an old \
             snapshot, and may be made master with that",
        ),
        Ok(durability @ Durability::Stated(_)) => Check::good(
            "keeps",
            format!("{durability}: stated by the operator, not checked ({how})"),
        ),
        Ok(durability) => Check::good("keeps", format!("{durability}: {how}")),
        Err(error) => {
            let (what, remedy) = in_two(error.message());
            Check::wrong("keeps", format!("{what} ({how})"), remedy)
        }
    }
}

fn memory(server_info: &ServerInfo) -> Option<Check> {
    let used = count(server_info.used_memory >> 20);
    let policy = &server_info.maxmemory_policy;
    if server_info.maxmemory == 0 {
        let finding = format!("{used} MiB used, without a bound, {policy}");
        let remedy = "set maxmemory: without it the system kills redis when memory runs out";
        return Some(Check::warning("memory", finding, remedy));
    }
    let most = count(server_info.maxmemory >> 20);
    let finding = format!("{used} of {most} MiB used, {policy}");
    Some(
        if server_info.used_memory > server_info.maxmemory / 10 * 9 {
            let remedy = "raise maxmemory; when it is used up, new jobs are refused";
            Check::warning("memory", finding, remedy)
        } else {
            Check::good("memory", finding)
        },
    )
}

fn troubles(server_info: &ServerInfo, asked: Option<Durability>) -> Vec<Check> {
    let is_stated = matches!(asked, Some(Durability::Stated(_)));
    let mut checks = Vec::new();
    if server_info.write_failed {
        let finding = format!(
            "redis at {} cannot write its append-only file",
            server_info.host
        );
        let remedy = "free space on its disk, and check its log";
        checks.push(match server_info.replica_of {
            None => Check::wrong("disk", finding, remedy),
            Some(_) => Check::warning("disk", finding, remedy),
        });
    }
    if server_info.delayed_fsyncs > 0 {
        checks.push(Check::warning(
            "disk",
            format!(
                "redis answered {} times before a slow fsync had finished",
                count(server_info.delayed_fsyncs)
            ),
            "a kill at such a time loses jobs acknowledged in the last 2 s; use a faster disk",
        ));
    }
    if server_info.appendonly && server_info.loads_truncated && !server_info.began_anew {
        checks.push(Check::warning(
            "disk",
            "redis may append after a truncated AOF record and lose later jobs: its AOF was not rewritten since it started",
            "the first call of an engine rewrites it, if its user may: allow +bgrewriteaof",
        ));
    }
    if !is_stated && !server_info.unreadable.is_empty() {
        checks.push(Check::warning(
            "settings",
            format!("not readable: {}", server_info.unreadable.join(", ")),
            "allow the user +config|get, so that the durability can be checked",
        ));
    }
    checks
}
