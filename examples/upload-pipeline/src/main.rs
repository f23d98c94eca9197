//! `cargo run -p upload-pipeline`: an upload service whose files survive kill -9 at any point.

mod access;
mod app;
mod args;
mod cache;
mod csv;
mod db;
mod jobs;
mod outbox;
mod refusal;
mod s3;
mod server;
mod slots;
mod sniff;
mod store;
mod thumbnail;
mod upload;
mod view;
mod web;
mod worker;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Parser;
use punctual::Engine;
use punctual::worker::{BoxError, Shutdown};
use punctual_directory::{OpenOrJoin, SharedDirectory};
use punctual_embedded::{EmbeddedEngine, Options};
use punctual_redis::RedisEngine;
use punctual_relay::Relay;
use tokio::net::TcpListener;
use tokio::sync::watch;

use app::{App, Settings};
use args::{Args, Role};
use cache::Cache;
use db::Database;
use outbox::Outbox;
use store::Store;

#[tokio::main]
async fn main() {
    let args = Args::parse();
    if let Err(error) = run(args).await {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

async fn run(args: Args) -> Result<(), BoxError> {
    std::fs::create_dir_all(&args.data).map_err(|error| {
        let data = args.data.display();
        format!("the directory {data} cannot be made: {error}; --data names another one")
    })?;
    let (engine, directory) = engine(&args).await?;
    let listener = match args.role {
        Role::Worker => None,
        _ => Some(TcpListener::bind(args.listen).await.map_err(|error| {
            format!(
                "cannot listen at {}: {error}; --listen names another address",
                args.listen
            )
        })?),
    };
    let app = App::new(
        database(&args).await?,
        store(&args).await?,
        engine,
        cache(&args)?,
        settings(&args),
    );
    say(&args, &app, listener.as_ref())?;
    let stop = stop_at_signal()?;
    let relay = Relay::new(&app.engine, "uploads")?;
    let outbox = Outbox {
        database: app.database.clone(),
        committed: app.committed.clone(),
    };
    let relaying = relay.run_until(outbox, stopped(stop.clone()));
    let working = async {
        match args.role {
            Role::Web => Ok(()),
            _ => {
                let stopped = Shutdown::from(stopped(stop.clone()));
                worker::worker(&app, args.lease).run_until(stopped).await
            }
        }
    };
    let serving = async {
        if let Some(listener) = listener {
            server::serve(listener, web::router(app.clone()), stopped(stop.clone())).await;
        }
        Ok(())
    };
    tokio::try_join!(relaying, working, serving)?;
    if let Some(directory) = directory {
        directory.close().await?;
    }
    Ok(())
}

/// A directory is shared: the roles may be processes of their own, and any of them may die.
async fn engine(args: &Args) -> Result<(Arc<dyn Engine>, Option<Arc<SharedDirectory>>), BoxError> {
    if let Some(address) = &args.engine {
        let options = address.parse::<punctual_redis::Options>()?;
        return Ok((Arc::new(RedisEngine::connect(options).await?), None));
    }
    let directory = args.data.join("jobs");
    let directory = Arc::new(EmbeddedEngine::open_or_join(directory, Options::default()).await?);
    Ok((directory.clone(), Some(directory)))
}

async fn database(args: &Args) -> Result<Database, BoxError> {
    let usual = || format!("sqlite:{}", args.data.join("files.db").display());
    let address = args.sql.clone().unwrap_or_else(usual);
    // An error may show no password, and the address may hold one.
    let failed = |error| format!("the database of --sql does not answer: {error}");
    Ok(Database::open(&address).await.map_err(failed)?)
}

async fn store(args: &Args) -> Result<Store, BoxError> {
    let place = match &args.store {
        None => return Ok(Store::directory(args.data.join("objects")).await?),
        Some(place) => place,
    };
    let Some(bucket) = place.strip_prefix("s3://") else {
        return Ok(Store::directory(PathBuf::from(place)).await?);
    };
    if args.file_max > store::S3_BYTES_MAX {
        let most = store::S3_BYTES_MAX;
        return Err(format!("--file-max is at most {most} with --store s3://").into());
    }
    let key = |name: &str| std::env::var(name).map_err(|_| format!("--store s3:// needs {name}"));
    let keys = (key("AWS_ACCESS_KEY_ID")?, key("AWS_SECRET_ACCESS_KEY")?);
    let bucket = s3::Bucket::new(&args.s3_endpoint, bucket, &args.s3_region, keys)?;
    bucket.check().await.map_err(|error| {
        let shown = bucket.place();
        format!("the store at {shown} cannot be used: {error}; check --s3-endpoint and --store")
    })?;
    Ok(Store::S3(Arc::new(bucket)))
}

fn cache(args: &Args) -> Result<Cache, BoxError> {
    match (&args.cache, args.role) {
        (Some(address), _) => Cache::redis(address),
        (None, Role::All) => Ok(Cache::Memory(Arc::default())),
        (None, _) => Ok(Cache::None),
    }
}

fn settings(args: &Args) -> Settings {
    let is_local = args.listen.ip().is_loopback();
    let random = || uuid::Uuid::new_v4().simple().to_string();
    // A variable that is set and empty names none.
    let given = args.token.clone().filter(|token| !token.is_empty());
    let is_token_random = given.is_none() && !is_local;
    Settings {
        token: given.or_else(|| is_token_random.then(random)),
        is_token_random,
        is_local,
        has_worker: args.role != Role::Web,
        file_bytes_max: args.file_max,
        quota: args.quota,
        idle: args.idle,
        keep: args.keep,
        cache_for: args.cache_for,
        abandon_after: args.abandon_after,
        pace: args.pace,
    }
}

/// Says where things are, on standard output: tests wait for the first line.
fn say(args: &Args, app: &App, listener: Option<&TcpListener>) -> Result<(), BoxError> {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    let pid = std::process::id();
    match listener {
        None => writeln!(
            out,
            "worker {pid} waits for files in {}",
            args.data.display()
        )?,
        Some(listener) => {
            let address = listener.local_addr()?;
            writeln!(
                out,
                "http://{address} takes files; they are kept in {}",
                args.data.display()
            )?;
            let token = app.settings.token.as_ref();
            if let Some(token) = token.filter(|_| app.settings.is_token_random) {
                writeln!(out, "the upload token is {token}")?;
            }
            let token = token.map_or("", |_| "-H 'Authorization: Bearer TOKEN' ");
            writeln!(
                out,
                "  curl {token}-F file=@some.csv http://{address}/upload"
            )?;
            writeln!(
                out,
                "  kill -9 {pid}    # nothing that was answered is lost; start it again"
            )?;
        }
    }
    Ok(out.flush()?)
}

fn stop_at_signal() -> Result<watch::Receiver<bool>, BoxError> {
    use tokio::signal::unix::{SignalKind, signal};
    let (sender, receiver) = watch::channel(false);
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        let _ = sender.send(true);
    });
    Ok(receiver)
}

async fn stopped(mut stop: watch::Receiver<bool>) {
    // Without a sender nothing stops it.
    if stop.wait_for(|is_stopped| *is_stopped).await.is_err() {
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_token_is_none_and_the_one_that_is_made_is_shown() {
        let of = |words: &str| settings(&Args::parse_from(words.split(' ')));
        let made = of("upload-pipeline --listen 0.0.0.0:1 --token=");
        assert!(made.is_token_random && made.token.is_some_and(|token| token.len() == 32));
        let local = of("upload-pipeline --token=");
        assert!(!local.is_token_random && local.token.is_none());
        let given = of("upload-pipeline --listen 0.0.0.0:1 --token=secret");
        assert!(!given.is_token_random && given.token.as_deref() == Some("secret"));
    }
}
