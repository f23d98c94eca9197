//! `punctual serve`: the engine over HTTP, for every language, with a page to look at.

mod posting;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use punctual::Namespace;
use punctual::time::{ManualClock, Timestamp};
use punctual_gateway::{Audit, Gateway, Registry, Scope, Token, Tokens};
use punctual_push::Doorbell;

use crate::args::{Global, span_of};
use crate::connect::{AUDIT, Address, DEFAULT, Make, Manner, TOKEN};
use crate::failure::{Failure, Result};
use crate::output::{Output, object};
use crate::signals::Signals;

const EXAMPLES: &str = "\
Examples:
  punctual                                          the same as punctual serve
  punctual serve                                    ./punctual-data on 127.0.0.1:4180
  PUNCTUAL_TOKEN=$(openssl rand -hex 24) punctual serve --listen 0.0.0.0:4180 --host jobs.example
  punctual serve --token-file tokens.txt            one per line: TOKEN NAMESPACE SCOPE[,SCOPE]
  punctual serve --push-allow hooks.internal:9000 --alert https://example.com/alerts
  punctual jobs list --engine http://127.0.0.1:4180 from another shell, with PUNCTUAL_TOKEN set

Without PUNCTUAL_TOKEN and --token-file a token is made and printed, another one each time. A token
has at least 16 characters. Scopes are read, enqueue, work and admin, which includes the others.
Jobs with a target are posted there when they are due, and outcomes to callbacks, signed with
--secret-file or PUNCTUAL_PUSH_SECRET. Nothing is posted to addresses that are not public, unless
--push-allow opens them. docs/push.md tells what targets see.
SIGTERM and Ctrl-C let requests and deliveries end, then close the engine. docs/http-api.md tells every route.";

/// Serve jobs over HTTP, with a page to look at
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4180")]
    listen: SocketAddr,

    /// A name under which it is asked, besides addresses and localhost
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,

    /// Tokens, one per line: TOKEN NAMESPACE SCOPES, the scopes with commas between
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Let everybody on this machine do everything, without a token
    #[arg(long, conflicts_with = "token_file")]
    no_auth: bool,

    /// Where to keep who changed what [default: audit.jsonl in the data directory]
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,

    /// How long running requests may take to end after SIGTERM
    #[arg(long, value_name = "SPAN", value_parser = span_of, default_value = "25s")]
    drain: Duration,

    #[command(flatten)]
    posting: posting::Options,

    /// Let a route move the clock, for tests; only with --engine memory:
    #[arg(long, hide = true)]
    test_clock: bool,
}

/// Tokens, and what may be shown of them.
struct Access {
    tokens: Tokens,
    /// Made just now: the only time that it is shown.
    made: Option<String>,
    /// Whose jobs there are, as far as tokens tell.
    namespaces: Vec<Namespace>,
}

impl Args {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let access = self.access(global)?;
        if access.made.is_some() && !self.listen.ip().is_loopback() {
            return Err(Failure::usage(format!(
                "{} can be reached by others and needs a token of your choice",
                self.listen
            ))
            .hint("set PUNCTUAL_TOKEN or --token-file, or listen on 127.0.0.1"));
        }
        let address = global.address()?;
        let registry = Registry::default();
        // Nobody else sets one in this process.
        let _ = metrics::set_global_recorder(registry.clone());
        let clock = self.test_clock.then(|| ManualClock::new(Timestamp::ZERO));
        let connection = match &clock {
            Some(clock) => address.open_timed(clock.clone())?,
            None => address.open(Make::IfMissing, Manner::Join).await?,
        };
        let doorbell = Doorbell::default();
        let mut gateway = Gateway::new(connection.engine.clone(), access.tokens)
            .hosts(self.host.clone())
            .registry(registry)
            .guard(self.posting.guard())
            .doorbell(doorbell.clone());
        let usual = address.of_files().map(|dir| dir.join(AUDIT));
        if let Some(file) = self.audit.clone().or(usual) {
            gateway = gateway.audit(Audit::in_file(&file)?);
        }
        if let Some(clock) = clock {
            gateway = gateway.with_test_clock(clock);
        }
        // Listened for before it is announced: whoever reads the announcement may end it.
        let mut signals = Signals::new()?;
        let serving = gateway.serve(self.listen).await?;
        connection.share_by(serving.sharer());
        let posts = self.posting.start(
            &connection.engine,
            &global.namespace()?,
            &access.namespaces,
            &doorbell,
            self.drain,
        )?;
        announce(
            global.output(),
            &address,
            serving.address(),
            access.made.as_deref(),
            self.no_auth,
        )?;
        signals.next().await;
        let out = global.output();
        out.note("ending: running requests may end; once more ends at once");
        tokio::select! {
            (drained, (), ()) = async {
                tokio::join!(serving.drain(self.drain), connection.unshare(), posts.end())
            } => {
                if !drained {
                    out.note("requests were cut off: they took too long to end");
                }
            }
            () = signals.next() => {}
        }
        connection.close().await
    }

    fn access(&self, global: &Global) -> Result<Access> {
        if self.no_auth {
            return Ok(Access {
                tokens: Tokens::open(),
                made: None,
                namespaces: vec![global.namespace()?],
            });
        }
        let mut known = match &self.token_file {
            Some(path) => read_tokens(path)?,
            None => Vec::new(),
        };
        let chosen = std::env::var(TOKEN).ok().filter(|token| !token.is_empty());
        if let Some(text) = &chosen {
            known.push(Token::new(text, global.namespace()?, &Scope::ALL)?);
        }
        let mut made = None;
        if known.is_empty() {
            let text = Token::generate();
            known.push(Token::new(&text, global.namespace()?, &Scope::ALL)?);
            made = Some(text);
        }
        let mut namespaces: Vec<_> = known
            .iter()
            .map(|token| token.namespace().clone())
            .collect();
        namespaces.push(global.namespace()?);
        namespaces.sort();
        namespaces.dedup();
        Ok(Access {
            tokens: Tokens::new(known),
            made,
            namespaces,
        })
    }
}

fn read_tokens(path: &Path) -> Result<Vec<Token>> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| Failure::file("read", path, &error))?;
    let lines = (1..).zip(text.lines());
    let told = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let mut tokens = Vec::new();
    for (number, line) in told {
        let token = Token::parse(line).map_err(|error| {
            let message = format!("line {number} of {} is no token", path.display());
            Failure::usage(message).hint(error.message())
        })?;
        tokens.push(token);
    }
    if tokens.is_empty() {
        return Err(Failure::usage(format!("{} has no token", path.display()))
            .hint("write one per line: TOKEN NAMESPACE SCOPE[,SCOPE]"));
    }
    Ok(tokens)
}

/// Where to look, and a line that schedules a job.
fn announce(
    out: Output,
    engine: &Address,
    address: SocketAddr,
    token: Option<&str>,
    is_open: bool,
) -> Result<()> {
    let url = format!("http://{address}");
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
    let shown = match token {
        Some(token) => format!(" -H 'Authorization: Bearer {token}'"),
        None if is_open => String::new(),
        None => format!(" -H \"Authorization: Bearer ${TOKEN}\""),
    };
    out.line(format!("serving {engine} on {url}"))?;
    out.line(format!("\n  look      {dashboard}"))?;
    out.line(format!(
        "  schedule  curl -s {url}/v1/jobs{shown} -H 'Content-Type: application/json' \
         -d '{{\"queue\":\"mail\",\"payload\":{{\"to\":\"ann\"}},\"delay\":\"30s\"}}'"
    ))?;
    if engine.of_files().is_some() {
        let named = match engine.to_string() {
            usual if usual == DEFAULT => String::new(),
            other => format!(" --engine {other}"),
        };
        out.line(format!(
            "  command   punctual jobs list{named}    in a second shell"
        ))?;
    } else if let Some(token) = token {
        out.line(format!(
            "  command   {TOKEN}={token} punctual jobs list --engine {url}"
        ))?;
    }
    if token.is_some() {
        out.line(format!(
            "\nThe token is new each time; set {TOKEN} to one of yours to keep it."
        ))?;
    }
    out.line("Ctrl-C ends it.")
}
