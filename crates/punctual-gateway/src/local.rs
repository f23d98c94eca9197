//! A socket in a directory, for processes of the same user.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use punctual::wire::socket::{NAME, Way};
use tokio::net::{UnixListener, UnixStream};

use crate::http::Peer;
use crate::listener::Listener;

/// A socket that accepts processes of the user of this process.
pub(crate) struct LocalListener {
    listener: UnixListener,
    file: SocketFile,
}

/// The socket's file; removed with this, unless it is another one by then.
struct SocketFile {
    path: PathBuf,
    /// Device and number of the file that is ours.
    identity: (u64, u64),
    owner: u32,
}

/// The user that may do everything on this machine anyway.
const ROOT: u32 = 0;

impl LocalListener {
    /// Makes the socket; it replaces one without a listener.
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        let path = dir.join(NAME);
        if let Ok(there) = fs::symlink_metadata(&path) {
            if !there.file_type().is_socket() {
                let message = format!("{} exists and is not a socket; remove it", path.display());
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
            }
            // Of a process that was killed: the holder of the directory is the only one.
            fs::remove_file(&path)?;
        }
        let listener = UnixListener::bind(Way::into(dir)?.path())?;
        // Until this is done the others are held back by the check of users.
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        let made = fs::symlink_metadata(&path)?;
        let file = SocketFile {
            path: fs::canonicalize(&path)?,
            identity: (made.dev(), made.ino()),
            owner: made.uid(),
        };
        Ok(Self { listener, file })
    }

    /// Lets it in, if the system says that it has the same user.
    fn admit(&self, stream: UnixStream) -> Option<(UnixStream, Peer)> {
        let user = stream.peer_cred().ok()?.uid();
        if may_enter(user, self.file.owner) {
            return Some((stream, Peer::Local));
        }
        tracing::warn!(user, "the socket refused a process of another user");
        None
    }
}

fn may_enter(user: u32, owner: u32) -> bool {
    user == owner || user == ROOT
}

impl Listener for LocalListener {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<Option<(UnixStream, Peer)>> {
        let (stream, _) = self.listener.accept().await?;
        Ok(self.admit(stream))
    }

    fn close(self) -> Vec<(UnixStream, Peer)> {
        let Self { listener, file } = self;
        let owner = file.owner;
        // First no new client finds it, then those who did are taken.
        drop(file);
        let Ok(listener) = listener.into_std() else {
            return Vec::new();
        };
        let taken: Vec<_> = std::iter::from_fn(|| listener.accept().ok()).collect();
        drop(listener);
        let streams = taken.into_iter().filter_map(|(stream, _)| {
            stream.set_nonblocking(true).ok()?;
            let stream = UnixStream::from_std(stream).ok()?;
            let user = stream.peer_cred().ok()?.uid();
            may_enter(user, owner).then_some((stream, Peer::Local))
        });
        streams.collect()
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|there| (there.dev(), there.ino()) == self.identity);
        if ours {
            // A file that stays is replaced by the next process.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests;
