//! The end of a stream: read to its end, of which a bounded part is kept.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use punctual::sync::Lock;
use punctual::time::{millis, within};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::JoinHandle;

/// The tail of a stream that is being read.
pub(super) struct Tail {
    kept: Arc<Mutex<VecDeque<u8>>>,
    reading: Option<JoinHandle<()>>,
}

impl Tail {
    /// Reads on in the background, however much comes, and keeps the last bytes.
    pub(super) fn collect(
        stream: Option<impl AsyncRead + Unpin + Send + 'static>,
        bytes_max: usize,
    ) -> Self {
        let kept = Arc::new(Mutex::new(VecDeque::new()));
        let reading = stream.map(|stream| tokio::spawn(read(stream, kept.clone(), bytes_max)));
        Self { kept, reading }
    }

    /// What is kept once the stream has ended. Whatever still holds its other end was moved out of
    /// the group on purpose; it is not waited for.
    pub(super) async fn finish(self) -> Bytes {
        if let Some(mut reading) = self.reading
            && within(millis(500), &mut reading).await.is_none()
        {
            reading.abort();
        }
        let mut kept = self.kept.locked();
        whole_characters(kept.make_contiguous())
    }
}

async fn read(
    mut stream: impl AsyncRead + Unpin,
    kept: Arc<Mutex<VecDeque<u8>>>,
    bytes_max: usize,
) {
    let mut buffer = vec![0; 8 << 10];
    while let Ok(n @ 1..) = stream.read(&mut buffer).await {
        let mut kept = kept.locked();
        kept.extend(&buffer[..n]);
        let over = kept.len().saturating_sub(bytes_max);
        kept.drain(..over);
    }
}

/// The bytes without the rest of a character that was cut at their start.
fn whole_characters(bytes: &[u8]) -> Bytes {
    let is_continuation = |byte: &u8| byte & 0b1100_0000 == 0b1000_0000;
    let cut = bytes
        .iter()
        .take(3)
        .take_while(|byte| is_continuation(byte))
        .count();
    Bytes::copy_from_slice(&bytes[cut..])
}

#[cfg(test)]
mod tests;
