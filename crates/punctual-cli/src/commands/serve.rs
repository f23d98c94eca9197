//! `punctual serve`: the engine over HTTP, for every language, with a dashboard.

mod access;
mod config;
mod posting;
mod relays;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use punctual::Namespace;
use punctual::time::{ManualClock, Timestamp, seconds, within};
use punctual_gateway::{Audit, Gateway, Proxy, Registry, Tls};
use punctual_push::{Maintenance, PushWakeup};
use tokio::signal::unix::SignalKind;

use self::access::{Access, warn_if_others_can_read};
use self::config::Config;
use self::relays::Relays;
use crate::args::{Global, Listen, listen_of, span_of};
use crate::connect::{AUDIT, Address, DEFAULT, Make, Mode, TOKEN};
use crate::failure::{Failure, Result};
use crate::output::{Output, object};
use crate::signals::{self, Signals};

const EXAMPLES: &str = "\
Examples:
  punctual                                          the same as punctual serve
  punctual serve                                    ./punctual-data on 127.0.0.1:4180
  PUNCTUAL_TOKEN=$(openssl rand -hex 24) punctual serve --listen 0.0.0.0:4180 --host jobs.example
  punctual serve --token-file tokens.txt            one per line: TOKEN NAMESPACE SCOPE[,SCOPE] [until=INSTANT]
  punctual serve --trusted-proxy 10.0.0.7           trust its X-Forwarded-For
  punctual serve --push-allow hooks.internal:9000 --alert https://example.com/alerts
  punctual serve --relay relays.toml                run relays of other systems: docs/relay.md
  punctual serve --config punctual.toml             all settings from a file; options override it
  punctual serve --tls-cert chain.pem --tls-key key.pem    https
  punctual jobs list --engine http://127.0.0.1:4180 from another shell, with PUNCTUAL_TOKEN set

Without PUNCTUAL_TOKEN and --token-file the server prints a new token at each start. A token has at
least 16 characters. SIGHUP reloads the token files, the certificate and its key; tokens removed from
a file are revoked. Scopes are read, enqueue, work, admin (which includes these) and operator (which
sees figures of the whole engine). The server posts due jobs to their targets and outcomes to
callbacks, signed with --secret-file or PUNCTUAL_PUSH_SECRET. It posts to public addresses only,
unless --push-allow opens others. docs/push.md describes what targets receive.
SIGTERM and Ctrl-C let requests and deliveries end, then close the engine. If the engine stops itself,
for example because a disk fails, the exit status is 7: restart it, as deploy/punctual.service does.
docs/http-api.md describes every route.";

/// Where it listens by default.
const USUAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4180);
/// How long running requests may take to end by default.
const DRAIN: Duration = seconds(25);
/// How long requests may take to be answered that the engine has stopped.
const LAST_ANSWERS: Duration = seconds(1);

/// Serve jobs over HTTP, with a dashboard
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A file with these options and named tokens, such as deploy/punctual.toml
    #[arg(long, value_name = "FILE.toml")]
    config: Option<PathBuf>,

    /// Where to listen, an address or a name; port 0 takes a free one [default: 127.0.0.1:4180]
    #[arg(long, value_name = "ADDRESS", value_parser = listen_of)]
    listen: Option<Listen>,

    /// A host name that clients use, besides addresses and localhost
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,

    /// A reverse proxy whose X-Forwarded-For is trusted; an address or a network
    #[arg(
        long = "trusted-proxy",
        value_name = "PROXY",
        env = "PUNCTUAL_TRUSTED_PROXIES",
        value_delimiter = ',',
        hide_env_values = true
    )]
    trusted_proxies: Vec<Proxy>,

    /// Tokens, one per line: TOKEN NAMESPACE SCOPES [until=INSTANT]; SIGHUP reloads it
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Serve TLS with this certificate chain; SIGHUP reloads it and the key
    #[arg(long, value_name = "FILE.pem", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The private key of the certificate
    #[arg(long, value_name = "FILE.pem", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Need no token: every process on this machine may do everything
    #[arg(long, conflicts_with = "token_file")]
    no_auth: bool,

    /// The file of the audit record [default: audit.jsonl in the data directory]
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,

    /// How long running requests may take to finish after SIGTERM [default: 25s]
    #[arg(long, value_name = "SPAN", value_parser = span_of)]
    drain: Option<Duration>,

    #[command(flatten)]
    posting: posting::Options,

    /// A file of relays to run, such as deploy/relays.toml
    #[arg(long, value_name = "FILE.toml")]
    relay: Option<PathBuf>,

    /// Add a route that sets the clock, for tests; only with --engine memory:
    #[arg(long, hide = true)]
    test_clock: bool,
}

impl Args {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let config = match &self.config {
            Some(path) => Config::read(path)?,
            None => Config::default(),
        };
        let namespace = global.namespace()?;
        let drain = self.drain.or(config.drain()).unwrap_or(DRAIN);
        let asked = self.listen.clone().or(config.listen());
        let Listen {
            address: listen,
            name,
        } = asked.unwrap_or(USUAL.into());
        let access = self.access(&config, &namespace)?;
        let tls = self.tls(&config)?;
        check_tokens(&access, listen, tls.is_some())?;
        let address = match (&global.engine, &config.engine) {
            (None, Some(engine)) => Address::parse(engine)?,
            _ => global.address()?,
        };
        let mut relays = Relays::of(self.relay.as_deref(), &namespace)?;
        let registry = Registry::default();
        // No other code sets one in this process.
        let _ = metrics::set_global_recorder(registry.clone());
        let clock = self.test_clock.then(|| ManualClock::new(Timestamp::ZERO));
        let connection = match &clock {
            Some(clock) => address.open_timed(clock.clone())?,
            None => address.open(Make::IfMissing, Mode::Join).await?,
        };
        let push_wakeup = PushWakeup::default();
        let mut maintenance = Maintenance::new();
        let mut gateway = Gateway::new(connection.engine.clone(), access.tokens.clone())
            .hosts(self.names(&config, name))
            .limits(config.limits())
            .trusted_proxies(self.proxies(&config))
            .registry(registry)
            .guard(self.posting.guard())
            .push_wakeup(push_wakeup.clone())
            .relays(relays.shown())
            .maintenance(maintenance.health());
        if let Some(tls) = &tls {
            gateway = gateway.tls(tls.clone());
        }
        if let Some(audit) = self.audit_record(&config, &address, global.output())? {
            gateway = gateway.audit(audit);
        }
        if let Some(clock) = clock {
            gateway = gateway.with_test_clock(clock);
        }
        // Before the announcement: its reader may send a signal at once.
        let mut signals = Signals::new()?;
        let mut hangups = signals::listen(SignalKind::hangup())?;
        let serving = gateway.serve(listen).await?;
        connection.share_by(serving.sharer());
        self.posting.start(
            &mut maintenance,
            &connection.engine,
            &namespace,
            &access.namespaces,
            &push_wakeup,
            drain,
        )?;
        relays.start(&connection.engine);
        announce(
            global.output(),
            &address,
            serving.address(),
            tls.is_some(),
            &access,
            self.no_auth,
        )?;
        let out = global.output();
        let stopped = loop {
            tokio::select! {
                () = signals.next() => break None,
                error = connection.stopped() => break Some(error),
                _ = hangups.recv() => read_again(out, tls.as_ref(), &access),
            }
        };
        if let Some(error) = stopped {
            // Every call fails with this error by now: requests in flight get it and end.
            let ended = async { tokio::join!(serving.drain(LAST_ANSWERS), connection.unshare()) };
            within(LAST_ANSWERS, ended).await;
            return Err(error.into());
        }
        out.note("shutting down: running requests may finish; a second signal stops at once");
        let ended = async {
            tokio::join!(
                serving.drain(drain),
                connection.unshare(),
                maintenance.end(),
                within(drain, relays.end())
            )
        };
        let ended = async { ended.await.0 };
        if first(ended, signals.next()).await == Some(false) {
            out.note("requests were aborted: they took too long to finish");
        }
        connection.close().await
    }

    /// The tokens of the options and of the file, unless none is needed.
    fn access(&self, config: &Config, namespace: &Namespace) -> Result<Access> {
        if self.no_auth {
            return Ok(Access::open(namespace.clone()));
        }
        let (tokens, file) = (self.token_file.clone(), self.config.clone());
        Access::by(tokens, file, config, namespace)
    }

    /// The certificate and its key, of the options or else of the file.
    fn tls(&self, config: &Config) -> Result<Option<Tls>> {
        let files = self.tls_cert.clone().zip(self.tls_key.clone());
        let Some((cert, key)) = files.or(config.tls_files()) else {
            return Ok(None);
        };
        warn_if_others_can_read(&key);
        Ok(Some(Tls::from_files(&cert, &key)?))
    }

    /// The audit record in its file; `None` if it is kept in memory.
    fn audit_record(
        &self,
        config: &Config,
        address: &Address,
        out: Output,
    ) -> Result<Option<Audit>> {
        let usual = address.of_files().map(|dir| dir.join(AUDIT));
        if let Some(file) = self.audit.clone().or(config.audit_file()).or(usual) {
            return Ok(Some(Audit::in_file(&file)?));
        }
        if !matches!(address, Address::Memory(_)) {
            out.note(
                "the audit record is lost when the server ends; name a file with --audit to keep it",
            );
        }
        Ok(None)
    }
}

/// What the future returns, or `None` if the signal comes first.
async fn first<T>(future: impl Future<Output = T>, signal: impl Future<Output = ()>) -> Option<T> {
    tokio::select! {
        value = future => Some(value),
        () = signal => None,
    }
}

/// Refuses a generated token where other machines can reach the server, and warns of weak ones.
fn check_tokens(access: &Access, listen: SocketAddr, has_tls: bool) -> Result<()> {
    if access.made.is_some() && !listen.ip().is_loopback() {
        return Err(Failure::usage(format!(
            "other machines can reach {listen}, which needs a token of your choice"
        ))
        .hint("set PUNCTUAL_TOKEN or --token-file, or listen on 127.0.0.1"));
    }
    for name in access.weak_at(listen.ip(), has_tls) {
        tracing::warn!(
            "the token {name} is easy to guess, and other machines can reach {listen} without TLS; use one from `openssl rand -hex 24`, and --tls-cert"
        );
    }
    Ok(())
}

impl Args {
    /// Names that it answers to. Without tokens, the name that it listens by is not among them:
    /// the owner of that name in DNS could send browsers here by it.
    fn names(&self, config: &Config, listened: Option<String>) -> Vec<String> {
        let mut names = [&*self.host, &*config.hosts].concat();
        names.extend(listened.filter(|_| !self.no_auth));
        names
    }
}

impl Args {
    /// Proxies of the line and of the file.
    fn proxies(&self, config: &Config) -> Vec<Proxy> {
        [&*self.trusted_proxies, &config.trusted_proxies()].concat()
    }
}

/// What a file has newly; what cannot be read changes nothing.
fn read_again(out: Output, tls: Option<&Tls>, access: &Access) {
    let (tls, tokens) = (tls.map(Tls::reload), access.read_again());
    if tls.is_none() && tokens.is_none() {
        out.note("nothing to reload: there is no certificate and no token file");
    }
    match tls {
        None => {}
        Some(Ok(())) => out.note("reloaded the certificate and its key"),
        Some(Err(error)) => {
            tracing::error!(%error, "could not reload the certificate; the old one stays in use")
        }
    }
    match tokens {
        None => {}
        Some(Ok(count)) => out.note(format!("reloaded the tokens: {count} are valid")),
        Some(Err(failure)) => {
            let error = failure.in_a_line();
            tracing::error!(
                error,
                "could not reload the tokens; the old ones stay in use"
            );
        }
    }
}

/// Where to look, and a line that schedules a job.
fn announce(
    out: Output,
    engine: &Address,
    address: SocketAddr,
    is_secure: bool,
    access: &Access,
    is_open: bool,
) -> Result<()> {
    let token = access.made.as_deref();
    let scheme = if is_secure { "https" } else { "http" };
    let url = format!("{scheme}://{address}");
    let dashboard = match token {
        Some(token) => format!("{url}/#token={token}"),
        None if is_open => format!("{url}/"),
        None => format!("{url}/#token=(the token)"),
    };
    if out.is_json() {
        return out.json(&object!({
            "url": url, "engine": engine.to_string(), "dashboard": dashboard, "token": token,
        }));
    }
    let shown = match is_open {
        true => String::new(),
        false => format!(" -H \"Authorization: Bearer ${TOKEN}\""),
    };
    out.line(format!("serving {engine} on {url}"))?;
    out.line(format!("\n  dashboard {dashboard}"))?;
    if let Some(token) = token {
        out.line(format!("  token     export {TOKEN}={token}"))?;
    }
    out.line(format!(
        "  schedule  curl -sS {url}/v1/jobs{shown} -H 'Content-Type: application/json' \
         -d '{{\"queue\":\"mail\",\"payload\":{{\"to\":\"ann\"}},\"delay\":\"30s\"}}'"
    ))?;
    if engine.of_files().is_some() {
        let named = match engine.to_string() {
            usual if usual == DEFAULT => String::new(),
            other => format!(" --engine {other}"),
        };
        // In the directory no token says whose jobs are meant.
        let of = match &access.shown {
            usual if *usual == Namespace::default() => String::new(),
            other => format!(" --namespace {other}"),
        };
        out.line(format!(
            "  command   punctual jobs list{named}{of}    in a second shell"
        ))?;
    } else if token.is_some() {
        out.line(format!("  command   punctual jobs list --engine {url}"))?;
    }
    if token.is_some() {
        out.line(format!(
            "\nIn a second shell paste the token's line first. The token is new at each start; set {TOKEN} to keep one."
        ))?;
    }
    out.line("Ctrl-C stops it.")
}

#[cfg(test)]
mod tests;
