//! Slots for uploads: bounded for all and for each client. A slow client gives its slot away.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use punctual::sync::Lock;
use punctual::time::{Stopwatch, seconds, within};
use tokio::sync::Notify;

/// Uploads at the same time; each has a part of 5 MiB in memory at most.
const UPLOADS_MAX: usize = 8;
/// Those of one client: as many as a browser sends at once.
const OF_CLIENT_MAX: usize = 6;

/// What a form may add to its file.
pub(crate) const FORM_BYTES_MAX: u64 = 64 * 1024;

/// A client that was waited for that long, and sent less than that in a second, gives its slot to
/// another upload that finds none.
const SLOW_AFTER: Duration = seconds(5);
const SLOW_BYTES_PER_SECOND: u64 = 16 * 1024;

/// A body that is slower than this on average, after its first minute, is given up.
const BYTES_PER_SECOND_MIN: u64 = 1_024;
const GIVEN_UP_AFTER: Duration = seconds(60);

/// Where a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Client(IpAddr);

impl Client {
    /// One host has a whole /64 of IPv6.
    pub(crate) fn at(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(address.into()),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Self(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into())
            }
        }
    }
}

/// The uploads that go on.
#[derive(Default)]
pub(crate) struct Slots(Mutex<Vec<Arc<Pace>>>);

/// One of them; its slot is free once this is dropped.
pub(crate) struct Slot {
    slots: Arc<Slots>,
    pace: Arc<Pace>,
}

/// How fast a client sends.
struct Pace {
    client: Client,
    seen: Mutex<Seen>,
    gives_way: Notify,
}

/// Time counts only while the client is waited for: a slow store is not its fault.
#[derive(Default)]
struct Seen {
    bytes: u64,
    waited: Duration,
    waits: Option<Stopwatch>,
}

impl Slots {
    /// A slot, if one is free or a slow upload can give up its own; else `None`.
    pub(crate) fn take(self: &Arc<Self>, client: Client) -> Option<Slot> {
        let mut all = self.0.locked();
        let own = all.iter().filter(|one| one.client == client).count();
        if own >= OF_CLIENT_MAX || all.len() >= UPLOADS_MAX {
            let is_own = own >= OF_CLIENT_MAX;
            let slow = all
                .iter()
                .position(|one| one.is_slow() && (!is_own || one.client == client))?;
            all.remove(slow).gives_way.notify_one();
        }
        let pace = Arc::new(Pace {
            client,
            seen: Mutex::default(),
            gives_way: Notify::new(),
        });
        all.push(pace.clone());
        Some(Slot {
            slots: self.clone(),
            pace,
        })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut all = self.slots.0.locked();
        all.retain(|one| !Arc::ptr_eq(one, &self.pace));
    }
}

impl Pace {
    fn is_slow(&self) -> bool {
        let seen = self.seen.locked();
        let now = seen
            .waits
            .as_ref()
            .map_or(Duration::ZERO, Stopwatch::elapsed);
        is_under(
            seen.bytes,
            seen.waited + now,
            SLOW_AFTER,
            SLOW_BYTES_PER_SECOND,
        )
    }

    fn begins_to_wait(&self) {
        self.seen.locked().waits = Some(Stopwatch::start());
    }

    fn receives(&self, bytes: usize) {
        let mut seen = self.seen.locked();
        seen.bytes += bytes as u64;
        if let Some(since) = seen.waits.take() {
            seen.waited += since.elapsed();
        }
    }
}

/// Whether so many bytes in that span are fewer than so many a second, once it is that long.
fn is_under(bytes: u64, span: Duration, after: Duration, per_second: u64) -> bool {
    span > after && bytes / span.as_secs().max(1) < per_second
}

/// What a form has beside its file: the parser keeps the head of a part in memory until it is
/// whole, so it is bounded as it comes.
#[derive(Clone, Default)]
pub(crate) struct Beside(Arc<Read>);

#[derive(Default)]
struct Read {
    is_file: AtomicBool,
    bytes: AtomicU64,
}

impl Beside {
    /// What comes next belongs to a part that is read as it comes.
    pub(crate) fn pauses(&self) {
        self.0.is_file.store(true, Ordering::Relaxed);
    }

    /// What comes next is kept until it is whole.
    pub(crate) fn goes_on(&self) {
        self.0.is_file.store(false, Ordering::Relaxed);
    }

    /// What follows the file has its own bound: the begin of the file came with what is before it.
    pub(crate) fn starts_again(&self) {
        self.0.bytes.store(0, Ordering::Relaxed);
        self.goes_on();
    }

    fn receives(&self, bytes: usize) {
        if !self.0.is_file.load(Ordering::Relaxed) {
            self.0.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    /// The chunk that passes the bound may have the begin of a file, so the next one is too many.
    fn is_over(&self) -> bool {
        !self.0.is_file.load(Ordering::Relaxed)
            && self.0.bytes.load(Ordering::Relaxed) > FORM_BYTES_MAX
    }
}

impl Slot {
    /// The chunks of a body, and an error once they come too slowly, the slot is given away, or
    /// there is too much beside the file.
    pub(crate) fn paced(
        &self,
        body: Body,
        idle: Duration,
        beside: Beside,
    ) -> impl Stream<Item = Result<Bytes, std::io::Error>> + Send + use<> {
        let (began, pace) = (Stopwatch::start(), self.pace.clone());
        let state = (body.into_data_stream(), 0_u64, pace, beside);
        futures_util::stream::unfold(
            state,
            move |(mut stream, mut bytes, pace, beside)| async move {
                // The parser of forms takes all that is ready. One chunk at a time keeps it small.
                tokio::task::yield_now().await;
                if beside.is_over() {
                    let error = std::io::Error::from(std::io::ErrorKind::FileTooLarge);
                    return Some((Err(error), (stream, bytes, pace, beside)));
                }
                pace.begins_to_wait();
                let chunk = tokio::select! {
                    biased;
                    () = pace.gives_way.notified() => None,
                    chunk = within(idle, stream.next()) => chunk,
                };
                let slow = || Some(Err(std::io::Error::from(std::io::ErrorKind::TimedOut)));
                let chunk = match chunk {
                    None => slow(),
                    Some(Some(Ok(chunk))) => {
                        pace.receives(chunk.len());
                        beside.receives(chunk.len());
                        bytes += chunk.len() as u64;
                        let span = began.elapsed();
                        match is_under(bytes, span, GIVEN_UP_AFTER, BYTES_PER_SECOND_MIN) {
                            true => slow(),
                            false => Some(Ok(chunk)),
                        }
                    }
                    Some(Some(Err(error))) => Some(Err(std::io::Error::other(error))),
                    Some(None) => None,
                };
                chunk.map(|chunk| (chunk, (stream, bytes, pace, beside)))
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(n: u8) -> Client {
        Client::at([127, 0, 0, n].into())
    }

    /// As if the client had been waited for that long, and sent so many bytes.
    fn sent(slot: &Slot, bytes: u64, waited: Duration) {
        let mut seen = slot.pace.seen.locked();
        (seen.bytes, seen.waited) = (bytes, waited);
    }

    /// As the head of a part that never ends: two chunks of it are read, and not a third.
    #[tokio::test]
    async fn what_is_beside_a_file_is_bounded_as_it_comes() {
        let slots = Arc::<Slots>::default();
        let slot = slots.take(client(1)).expect("a slot");
        let chunk = || Ok::<_, std::io::Error>(Bytes::from(vec![b'h'; 40 << 10]));
        let endless = || Body::from_stream(futures_util::stream::repeat_with(chunk));
        let beside = Beside::default();
        let mut chunks = Box::pin(slot.paced(endless(), seconds(30), beside.clone()));
        for _ in 0..2 {
            assert!(chunks.next().await.is_some_and(|chunk| chunk.is_ok()));
        }
        assert!(chunks.next().await.is_some_and(|chunk| chunk.is_err()));

        beside.pauses();
        let mut chunks = Box::pin(slot.paced(endless(), seconds(30), beside.clone()));
        for _ in 0..100 {
            assert!(chunks.next().await.is_some_and(|chunk| chunk.is_ok()));
        }
        beside.starts_again();
        assert!(chunks.next().await.is_some_and(|chunk| chunk.is_ok()));
    }

    #[test]
    fn one_client_leaves_slots_for_others() {
        let slots = Arc::<Slots>::default();
        let own: Vec<_> = (0..OF_CLIENT_MAX)
            .map(|_| slots.take(client(1)).expect("a slot"))
            .collect();
        assert!(slots.take(client(1)).is_none());
        let others: Vec<_> = (OF_CLIENT_MAX..UPLOADS_MAX)
            .map(|_| slots.take(client(2)).expect("a slot"))
            .collect();
        assert!(slots.take(client(3)).is_none());
        drop(own);
        assert!(slots.take(client(3)).is_some());
        drop(others);
        assert!(slots.0.locked().is_empty());
    }

    #[tokio::test]
    async fn the_slot_of_a_slow_client_goes_to_another_upload() {
        let slots = Arc::<Slots>::default();
        let all: Vec<_> = (0..UPLOADS_MAX as u8)
            .map(|n| slots.take(client(n)).expect("a slot"))
            .collect();
        // A store that is slow lets its client not be waited for.
        sent(&all[2], 1 << 20, seconds(20));
        sent(&all[3], 1_000, seconds(3));
        assert!(slots.take(client(9)).is_none());
        sent(&all[4], 100_000, seconds(20));
        let taken = slots.take(client(9)).expect("the slot of a slow one");
        all[4].pace.gives_way.notified().await;
        assert!(slots.take(client(9)).is_none());
        drop(all);
        assert_eq!(slots.0.locked().len(), 1);
        drop(taken);
    }

    #[test]
    fn a_client_that_has_all_it_may_gives_up_its_own() {
        let slots = Arc::<Slots>::default();
        let other = slots.take(client(2)).expect("a slot");
        sent(&other, 0, seconds(20));
        let own: Vec<_> = (0..OF_CLIENT_MAX)
            .map(|_| slots.take(client(1)).expect("a slot"))
            .collect();
        assert!(slots.take(client(1)).is_none());
        sent(&own[0], 0, seconds(20));
        assert!(slots.take(client(1)).is_some());
    }

    #[test]
    fn addresses_of_one_network_of_ipv6_are_one_client() {
        let at = |text: &str| Client::at(text.parse().expect("an address"));
        assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:2"));
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
        assert_eq!(at("::ffff:127.0.0.1"), at("127.0.0.1"));
    }
}
