//! The listener: a bound on connections, and on how slowly a client may send its headers.

use std::future::Future;
use std::sync::Arc;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use punctual::time::{millis, pause, seconds, within};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::slots::Client;

/// Connections at the same time.
const CONNECTIONS_MAX: usize = 512;
/// A client may take that long to send the headers of a request.
const HEADERS: std::time::Duration = seconds(10);
/// Requests under way have that long to end after the shutdown.
const DRAIN: std::time::Duration = seconds(5);

/// Serves until the shutdown.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()>,
) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = async {
            let permit = permits.clone().acquire_owned().await;
            (listener.accept().await, permit)
        };
        let (accepted, permit) = tokio::select! {
            biased;
            () = shutdown.as_mut() => break,
            accepted = accepted => accepted,
        };
        let Ok((stream, peer)) = accepted else {
            // No file descriptors: some are free again soon.
            pause(millis(100)).await;
            continue;
        };
        let client = Client::at(peer.ip());
        let service = TowerToHyperService::new(router.clone().layer(Extension(client)));
        tokio::spawn(async move {
            let _permit = permit;
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADERS)
                .max_buf_size(64 * 1024)
                .serve_connection(TokioIo::new(stream), service)
                .with_upgrades();
            // A client that goes away is no error of this server.
            let _ = connection.await;
        });
    }
    drop(listener);
    let all = u32::try_from(CONNECTIONS_MAX).unwrap_or(u32::MAX);
    let _ = within(DRAIN, permits.acquire_many(all)).await;
}
