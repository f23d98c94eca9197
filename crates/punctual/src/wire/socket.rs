//! Where the holder of a directory answers other processes of the same user.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The socket's name in its directory.
pub const NAME: &str = "socket";

/// A path to the socket in a directory, for as long as this is there.
///
/// Systems bound such a path at about 100 bytes. On Linux a longer one is reached through a handle
/// of its directory; elsewhere it is refused.
#[derive(Debug)]
pub struct Way {
    path: PathBuf,
    _dir: Option<File>,
}

impl Way {
    /// The way to the socket in this directory, whether there is one or not.
    pub fn into(dir: &Path) -> io::Result<Self> {
        let path = dir.join(NAME);
        if SocketAddr::from_pathname(&path).is_ok() {
            return Ok(Self { path, _dir: None });
        }
        if !cfg!(target_os = "linux") {
            let length = path.as_os_str().len();
            let message = format!("its path of {length} bytes is too long for a socket");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let handle = File::open(dir)?;
        let path = format!("/proc/self/fd/{}/{NAME}", handle.as_raw_fd());
        Ok(Self {
            path: path.into(),
            _dir: Some(handle),
        })
    }

    /// The path, good while this is there.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
