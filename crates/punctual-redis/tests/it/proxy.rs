//! A proxy between an engine and its server that cuts a connection at a byte.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// Which way is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Request,
    Reply,
}

/// Hands on all that comes, until it is told to cut.
#[derive(Debug)]
pub(crate) struct Proxy {
    port: u16,
    cuts: Arc<Cuts>,
}

/// Bytes that may still pass each way before the connection is cut, once; no bound below zero.
#[derive(Debug)]
struct Cuts {
    request: AtomicI64,
    reply: AtomicI64,
    /// Whether the next cut is the last: nobody gets through any more.
    is_last: AtomicBool,
    is_dead: AtomicBool,
    died: Notify,
}

const NEVER: i64 = -1;

impl Proxy {
    pub(crate) async fn to(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .await
            .expect("a free port");
        let of_proxy = listener.local_addr().expect("it is bound").port();
        let cuts = Arc::new(Cuts {
            request: AtomicI64::new(NEVER),
            reply: AtomicI64::new(NEVER),
            is_last: AtomicBool::new(false),
            is_dead: AtomicBool::new(false),
            died: Notify::new(),
        });
        let (cuts_here, accepts) = (cuts.clone(), async move {
            while let Ok((client, _)) = listener.accept().await {
                if cuts.is_dead.load(SeqCst) {
                    continue;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else {
                    continue;
                };
                tokio::spawn(hand_on(client, server, cuts.clone()));
            }
        });
        tokio::spawn(accepts);
        Self {
            port: of_proxy,
            cuts: cuts_here,
        }
    }

    pub(crate) fn address(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Cuts the connection on which so many more bytes have gone that way.
    pub(crate) fn cut_after(&self, way: Way, bytes: usize) {
        self.cuts.of(way).store(bytes as i64, SeqCst);
    }

    /// Whether it has cut since it was told to.
    pub(crate) fn has_cut(&self, way: Way) -> bool {
        self.cuts.of(way).load(SeqCst) == NEVER
    }

    /// Cuts every connection for good once so many more bytes have gone that way, as if who is on
    /// this side had died.
    pub(crate) fn die_after(&self, way: Way, bytes: usize) {
        self.cuts.is_last.store(true, SeqCst);
        self.cut_after(way, bytes);
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.cuts.is_dead.load(SeqCst)
    }

    pub(crate) async fn death(&self) {
        let died = self.cuts.died.notified();
        if !self.is_dead() {
            died.await;
        }
    }

    pub(crate) fn cut_no_more(&self, way: Way) {
        self.cuts.of(way).store(NEVER, SeqCst);
    }
}

impl Cuts {
    fn of(&self, way: Way) -> &AtomicI64 {
        match way {
            Way::Request => &self.request,
            Way::Reply => &self.reply,
        }
    }

    /// How many of so many bytes pass; fewer than all means that this was the cut.
    fn pass(&self, way: Way, bytes: usize) -> usize {
        if self.is_dead.load(SeqCst) {
            return 0;
        }
        let left = self.of(way);
        match left.load(SeqCst) {
            NEVER => bytes,
            some if (some as usize) < bytes => {
                left.store(NEVER, SeqCst);
                if self.is_last.load(SeqCst) {
                    self.is_dead.store(true, SeqCst);
                    self.died.notify_waiters();
                }
                some as usize
            }
            some => {
                left.store(some - bytes as i64, SeqCst);
                bytes
            }
        }
    }
}

async fn hand_on(client: TcpStream, server: TcpStream, cuts: Arc<Cuts>) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        () = one_way(from_client, to_server, &cuts, Way::Request) => {}
        () = one_way(from_server, to_client, &cuts, Way::Reply) => {}
    }
}

async fn one_way(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    cuts: &Cuts,
    way: Way,
) {
    let mut buffer = vec![0; 65_536];
    while let Ok(read) = from.read(&mut buffer).await {
        let passes = cuts.pass(way, read);
        let written = to.write_all(&buffer[..passes]).await;
        if read == 0 || passes < read || written.is_err() {
            return;
        }
    }
}
