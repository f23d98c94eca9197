//! Rogue clients of a gateway, which take its connections and its time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use punctual::time::{millis, pause};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::address::TOKEN;
use crate::plan::{Fault, Kind};

/// How many come at once.
const ROGUE_CLIENTS: usize = 16;

/// They come, stay for the span of the fault, and go; whether any of them was let in.
pub(super) async fn come(port: u16, fault: &Fault) -> bool {
    let let_in = Arc::new(AtomicU64::new(0));
    let mut rogue_clients = JoinSet::new();
    for _ in 0..ROGUE_CLIENTS {
        let (kind, let_in) = (fault.kind, let_in.clone());
        rogue_clients.spawn(async move {
            // The gateway may be away, or send them away: then they come again.
            loop {
                if let Ok(door) = TcpStream::connect(("127.0.0.1", port)).await {
                    let_in.fetch_add(1, Relaxed);
                    match kind {
                        Kind::Drip => drip(door).await,
                        _ => take_nothing(door, port).await,
                    }
                }
                pause(millis(50)).await;
            }
        });
    }
    pause(fault.span()).await;
    rogue_clients.shutdown().await;
    let_in.load(Relaxed) > 0
}

/// A head that never ends, byte by byte.
async fn drip(mut door: TcpStream) {
    let head = b"POST /v1/claims HTTP/1.1\r\nhost: 127.0.0.1\r\nx-drop: ";
    for byte in head.iter().chain(std::iter::repeat(&b'.')) {
        if door.write_all(&[*byte]).await.is_err() {
            return;
        }
        pause(millis(20)).await;
    }
}

/// Asks for much, again and again, and reads none of it.
async fn take_nothing(mut door: TcpStream, port: u16) {
    let request = format!(
        "GET /openapi.json HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {TOKEN}\r\n\r\n"
    );
    while door.write_all(request.as_bytes()).await.is_ok() {}
}
