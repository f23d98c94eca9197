//! What servers say of themselves, and whether they can keep what is asked of them.

use punctual::engine::Durability;
use punctual_redis::{RedisEngine, Standing};

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
    let standings = RedisEngine::examine(options).await?;
    // A replica stands behind its master.
    let mut promised = None;
    for standing in &standings {
        if let Some(why) = &standing.silent {
            checks.push(silent(standing, why));
            continue;
        }
        checks.push(server(standing));
        let is_behind_its_master = standing.replica_of.is_some()
            && standings
                .iter()
                .any(|it| Some(&it.host) == standing.replica_of.as_ref());
        if is_behind_its_master {
            checks.push(could_keep(standing, promised));
        } else {
            checks.extend(role(standing));
            promised = standing.keeps(asked).ok();
            checks.push(keeps(standing, asked));
        }
        checks.extend(memory(standing));
        checks.extend(troubles(standing));
    }
    Ok(checks)
}

/// Whether a server takes changes, which a replica that the address names does not.
fn role(standing: &Standing) -> Option<Check> {
    let master = standing.replica_of.as_ref()?;
    Some(Check::wrong(
        "role",
        format!(
            "redis at {} is a replica of {master} and accepts no writes",
            standing.host
        ),
        "use the address of its master or of its sentinels",
    ))
}

fn silent(standing: &Standing, why: &str) -> Check {
    let master = standing.replica_of.as_deref().unwrap_or_default();
    Check::warning(
        "server",
        format!(
            "redis at {}, a replica of {master}, cannot be checked: {why}",
            standing.host
        ),
        "check that it runs, accepts the same user and password, and that its name resolves here",
    )
}

/// A replica that becomes master keeps what it is set up for, not what the master before it was.
fn could_keep(standing: &Standing, promised: Option<Durability>) -> Check {
    let how = how(standing);
    let promised = promised.unwrap_or(Durability::Memory);
    match standing.could_keep(promised) {
        Ok(Durability::Replica(_)) if !standing.appendonly => Check::warning(
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

fn server(standing: &Standing) -> Check {
    let follows = standing.replica_of.as_ref();
    let follows = follows.map_or(String::new(), |master| format!(", a replica of {master}"));
    let finding = format!(
        "{} at {}{follows}, functions {} of {}",
        standing.version,
        standing.host,
        standing
            .functions
            .map_or("none".into(), |version| version.to_string()),
        RedisEngine::functions_version(),
    );
    match standing.functions {
        Some(version) if version > RedisEngine::functions_version() => Check::warning(
            "server",
            finding,
            "a newer punctual uses this server; upgrade this one",
        ),
        _ => Check::good("server", finding),
    }
}

fn how(standing: &Standing) -> String {
    match (standing.appendonly, standing.appendfsync.as_str()) {
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

fn keeps(standing: &Standing, asked: Option<Durability>) -> Check {
    let how = how(standing);
    match standing.keeps(asked) {
        Ok(durability @ Durability::Replica(_)) if !standing.appendonly => Check::warning(
            "keeps",
            format!("{durability}: {how}"),
            "set appendonly yes on it and every replica: one without starts again with an old \
             snapshot, and may be made master with that",
        ),
        Ok(durability) => Check::good("keeps", format!("{durability}: {how}")),
        Err(error) => {
            let (what, remedy) = in_two(error.message());
            Check::wrong("keeps", format!("{what} ({how})"), remedy)
        }
    }
}

fn memory(standing: &Standing) -> Option<Check> {
    let used = count(standing.used_memory >> 20);
    let policy = &standing.maxmemory_policy;
    if standing.maxmemory == 0 {
        let finding = format!("{used} MiB used, without a bound, {policy}");
        let remedy = "set maxmemory: without it the system kills redis when memory runs out";
        return Some(Check::warning("memory", finding, remedy));
    }
    let most = count(standing.maxmemory >> 20);
    let finding = format!("{used} of {most} MiB used, {policy}");
    Some(if standing.used_memory > standing.maxmemory / 10 * 9 {
        let remedy = "raise maxmemory; when it is used up, new jobs are refused";
        Check::warning("memory", finding, remedy)
    } else {
        Check::good("memory", finding)
    })
}

fn troubles(standing: &Standing) -> Vec<Check> {
    let mut checks = Vec::new();
    if standing.write_failed {
        let finding = format!(
            "redis at {} cannot write its append-only file",
            standing.host
        );
        let remedy = "free space on its disk, and check its log";
        checks.push(match standing.replica_of {
            None => Check::wrong("disk", finding, remedy),
            Some(_) => Check::warning("disk", finding, remedy),
        });
    }
    if standing.delayed_fsyncs > 0 {
        checks.push(Check::warning(
            "disk",
            format!(
                "redis answered {} times before a slow fsync had finished",
                count(standing.delayed_fsyncs)
            ),
            "a kill at such a time loses jobs acknowledged in the last 2 s; use a faster disk",
        ));
    }
    if standing.appendonly && standing.loads_truncated && !standing.began_anew {
        checks.push(Check::warning(
            "disk",
            "redis may append after a truncated AOF record and lose later jobs: its AOF was not rewritten since it started",
            "the first call of an engine rewrites it, if its user may: allow +bgrewriteaof",
        ));
    }
    if !standing.unreadable.is_empty() {
        checks.push(Check::warning(
            "settings",
            format!("not readable: {}", standing.unreadable.join(", ")),
            "allow the user +config|get, so that the durability can be checked",
        ));
    }
    checks
}
