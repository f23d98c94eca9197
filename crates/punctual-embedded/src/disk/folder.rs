//! The disk of production: a directory of the operating system.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Disk, DiskFile};

/// The files of a directory of the operating system; directories in it are not seen.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// The directory at a path, which must be there.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Disk for Folder {
    fn names(&self) -> io::Result<Vec<(String, u64)>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let about = entry.metadata()?;
            if let (true, Ok(name)) = (about.is_file(), entry.file_name().into_string()) {
                names.push((name, about.len()));
            }
        }
        Ok(names)
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        fs::read(self.file(name))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(create_file(&self.file(name))?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new().write(true).open(self.file(name))?;
        Ok(Arc::new(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.file(from), self.file(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.file(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        sync_directory(&self.path)
    }

    fn reserve(&self, name: &str, bytes: u64) -> io::Result<()> {
        let file = create_file(&self.file(name))?;
        let flags = rustix::fs::FallocateFlags::empty();
        let reserved = match rustix::fs::fallocate(&file, flags, 0, bytes) {
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => fill(&file, bytes),
            other => other.map_err(io::Error::from),
        };
        if reserved.is_err() {
            fs::remove_file(self.file(name))?;
        }
        reserved
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let about = rustix::fs::statvfs(&self.path)?;
        Ok(about.f_bavail.saturating_mul(about.f_frsize))
    }

    fn boot(&self) -> u128 {
        let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        uuid::Uuid::try_parse(text.trim()).map_or(0, |id| id.as_u128())
    }
}

impl DiskFile for File {
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Makes a directory that only its owner may enter: payloads are private.
pub(crate) fn create_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(path)
}

/// Makes a file that only its owner may read; one that is there loses its content and keeps its
/// mode.
fn create_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true);
    options.mode(0o600).open(path)
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Takes the bytes of a disk that cannot allocate without writing.
fn fill(file: &File, bytes: u64) -> io::Result<()> {
    let zeros = vec![0; 1 << 20];
    for at in (0..bytes).step_by(zeros.len()) {
        let part = usize::try_from(bytes - at).map_or(zeros.len(), |left| left.min(zeros.len()));
        file.write_all_at(&zeros[..part], at)?;
    }
    Ok(())
}
