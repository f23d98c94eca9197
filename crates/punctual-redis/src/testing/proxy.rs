//! A proxy between a client and its server that does what networks do.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use punctual::sync::Lock;
use punctual::time::pause;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// To the server.
    Request,
    /// To the client.
    Reply,
}

/// What becomes of bytes on their way, on every connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weather {
    /// They are handed on.
    Fair,
    /// They are kept until the weather changes.
    BlackHole,
    /// They are handed on after a span between half of this and one and a half.
    Slow(Duration),
    /// So many are handed on per second, each way of each connection, until the weather changes.
    Thin(u32),
    /// Requests are handed on, replies are not; who lost one has its connection cut when this is
    /// over.
    NoReplies,
}

/// How connections end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By a reset.
    Reset,
    /// In good order.
    Closed,
    /// The client receives nothing more, but may still send.
    HalfClosed,
}

/// Hands on all that comes, until a test says otherwise.
#[derive(Debug)]
pub struct TestProxy {
    port: u16,
    sky: Arc<Sky>,
}

#[derive(Debug)]
struct Sky {
    weather: watch::Sender<Weather>,
    /// Counts the times that all connections were ended.
    endings: watch::Sender<(u64, Ending)>,
    /// Bytes that may still pass each way before the connection is cut, once; no bound below zero.
    request: AtomicI64,
    reply: AtomicI64,
    passed: AtomicU64,
    /// What has passed each way since a test listens, if one does.
    received: [Mutex<Option<Vec<u8>>>; 2],
    /// Whether the next cut is the last: no connection gets through any more.
    is_last: AtomicBool,
    is_dead: AtomicBool,
    died: Notify,
}

const NEVER: i64 = -1;

impl TestProxy {
    /// A proxy to a port of the loopback, on a free one.
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .await
            .expect("a free port");
        let of_proxy = listener.local_addr().expect("it is bound").port();
        let sky = Arc::new(Sky {
            weather: watch::Sender::new(Weather::Fair),
            endings: watch::Sender::new((0, Ending::Closed)),
            request: AtomicI64::new(NEVER),
            reply: AtomicI64::new(NEVER),
            passed: AtomicU64::new(0),
            received: Default::default(),
            is_last: AtomicBool::new(false),
            is_dead: AtomicBool::new(false),
            died: Notify::new(),
        });
        let (sky_here, accepts) = (sky.clone(), async move {
            while let Ok((client, _)) = listener.accept().await {
                if sky.is_dead.load(SeqCst) {
                    continue;
                }
                tokio::spawn(connect(client, port, sky.clone()));
            }
        });
        tokio::spawn(accepts);
        Self {
            port: of_proxy,
            sky: sky_here,
        }
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address for a server that it stands before.
    pub fn address(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Changes the weather, for connections that are there and those to come.
    pub fn set_weather(&self, weather: Weather) {
        self.sky.weather.send_replace(weather);
    }

    /// Ends all connections that are there.
    pub fn end_all(&self, how: Ending) {
        self.sky
            .endings
            .send_modify(|ending| *ending = (ending.0 + 1, how));
    }

    /// Cuts the connection on which so many more bytes have gone that way.
    pub fn cut_after(&self, way: Way, bytes: usize) {
        self.sky.left(way).store(bytes as i64, SeqCst);
    }

    /// Whether it has cut since it was asked to.
    pub fn has_cut(&self, way: Way) -> bool {
        self.sky.left(way).load(SeqCst) == NEVER
    }

    /// Cuts every connection for good once so many more bytes have gone that way, as if who is on
    /// this side had died.
    pub fn die_after(&self, way: Way, bytes: usize) {
        self.sky.is_last.store(true, SeqCst);
        self.cut_after(way, bytes);
    }

    /// Whether it has died.
    pub fn is_dead(&self) -> bool {
        self.sky.is_dead.load(SeqCst)
    }

    /// Waits until it has died.
    pub async fn death(&self) {
        let died = self.sky.died.notified();
        if !self.is_dead() {
            died.await;
        }
    }

    /// Lets everybody through again after its death.
    pub fn revive(&self) {
        self.sky.is_last.store(false, SeqCst);
        self.sky.is_dead.store(false, SeqCst);
    }

    /// Listens to what passes from now on.
    pub fn listen(&self) {
        for received in &self.sky.received {
            *received.locked() = Some(Vec::new());
        }
    }

    /// What has passed that way since [`listen`](Self::listen), of all connections as it came.
    pub fn received(&self, way: Way) -> Vec<u8> {
        self.sky.received(way).clone().unwrap_or_default()
    }

    /// Takes back what [`cut_after`](Self::cut_after) said.
    pub fn cut_no_more(&self, way: Way) {
        self.sky.left(way).store(NEVER, SeqCst);
    }
}

impl Sky {
    fn left(&self, way: Way) -> &AtomicI64 {
        match way {
            Way::Request => &self.request,
            Way::Reply => &self.reply,
        }
    }

    fn received(&self, way: Way) -> MutexGuard<'_, Option<Vec<u8>>> {
        let received = &self.received[usize::from(way == Way::Reply)];
        received.locked()
    }

    /// How many of so many bytes pass; fewer than all means that this was the cut.
    fn pass(&self, way: Way, bytes: usize) -> usize {
        if self.is_dead.load(SeqCst) {
            return 0;
        }
        let left = self.left(way);
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

    /// Between a half and one and a half, another one each time.
    fn unevenly(&self, span: Duration) -> Duration {
        let count = self.passed.fetch_add(1, SeqCst);
        let share = count.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
        span.mul_f64(0.5 + share as f64 / 1_024.0)
    }
}

async fn connect(client: TcpStream, port: u16, sky: Arc<Sky>) {
    let mut endings = sky.endings.subscribe();
    let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else {
        return;
    };
    // Small requests are not to wait for each other.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let how = tokio::select! {
        () = one_way(&mut from_client, &mut to_server, &sky, Way::Request) => Ending::Closed,
        () = one_way(&mut from_server, &mut to_client, &sky, Way::Reply) => Ending::Closed,
        _ = endings.changed() => endings.borrow().1,
    };
    match how {
        Ending::Closed => {}
        // A half that is dropped would end in good order first.
        Ending::Reset => {
            drop(to_client.as_ref().set_zero_linger());
            to_client.forget();
        }
        Ending::HalfClosed => {
            drop(to_client.shutdown().await);
            one_way(&mut from_client, &mut to_server, &sky, Way::Request).await;
        }
    }
}

async fn one_way(from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf, sky: &Sky, way: Way) {
    let mut weather = sky.weather.subscribe();
    let mut buffer = vec![0; 65_536];
    while let Ok(read) = from.read(&mut buffer).await {
        let now = *weather.borrow_and_update();
        match now {
            Weather::Fair => {}
            Weather::BlackHole => drop(weather.wait_for(|now| *now != Weather::BlackHole).await),
            Weather::Slow(span) => pause(sky.unevenly(span)).await,
            Weather::Thin(rate) => {
                // A large read would go on for long after the weather.
                let held = pause(Duration::from_secs(1) * read as u32 / rate);
                tokio::select! { () = held => {}, _ = weather.changed() => {} }
            }
            Weather::NoReplies if way == Way::Reply => {
                let _ = weather.wait_for(|now| *now != Weather::NoReplies).await;
                return;
            }
            Weather::NoReplies => {}
        }
        let passes = sky.pass(way, read);
        if let Some(received) = &mut *sky.received(way) {
            received.extend(&buffer[..passes]);
        }
        let written = to.write_all(&buffer[..passes]).await;
        if read == 0 || passes < read || written.is_err() {
            return;
        }
    }
}
