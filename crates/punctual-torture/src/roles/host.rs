//! A process that serves an engine over HTTP.

use std::io::Write;
use std::net::SocketAddr;

use punctual::Namespace;
use punctual::time::seconds;
use punctual_gateway::{Gateway, Scope, Token, Tokens};
use tokio::signal::unix::{SignalKind, signal};

use super::{Failed, connect};
use crate::address::TOKEN;

/// Which engine is served where.
#[derive(Debug, clap::Args)]
pub(crate) struct HostArgs {
    /// The engine's address
    #[arg(long)]
    engine: String,

    /// The port on the loopback
    #[arg(long)]
    port: u16,
}

/// Serves until SIGTERM; says `serving` once it does.
pub(super) async fn run(args: HostArgs) -> Result<(), Failed> {
    let engine = connect(&args.engine).await?;
    let token = Token::new(TOKEN, Namespace::default(), &Scope::ALL)?;
    let mut ended = signal(SignalKind::terminate())?;
    let listen = SocketAddr::from(([127, 0, 0, 1], args.port));
    let serving = Gateway::new(engine, Tokens::new(vec![token]))
        .serve(listen)
        .await?;
    writeln!(std::io::stdout(), "serving")?;
    ended.recv().await;
    serving.drain(seconds(2)).await;
    Ok(())
}
