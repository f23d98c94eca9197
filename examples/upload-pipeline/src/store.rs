//! Where the bytes are: a local directory, or a bucket of S3.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use punctual::worker::BoxError;
use tokio::fs;
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

use crate::s3::Bucket;

/// Bytes of one part of an upload; S3 takes no smaller ones but the last.
pub(crate) const PART_BYTES: usize = 5 << 20;

/// S3 takes so many parts of one object.
const PARTS_MAX: u64 = 10_000;
/// The largest file in a bucket.
pub(crate) const S3_BYTES_MAX: u64 = PARTS_MAX * PART_BYTES as u64;

#[derive(Clone)]
pub(crate) enum Store {
    Directory(Arc<PathBuf>),
    S3(Arc<Bucket>),
}

/// The store has not what a record says: no time mends that.
#[derive(Debug)]
pub(crate) struct Lacking(pub(crate) &'static str);

impl Lacking {
    pub(crate) const OBJECT: Self = Self("the store has no such object");
}

impl std::fmt::Display for Lacking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Lacking {}

/// An object that is being written. It is not there before `finish`.
pub(crate) enum Writer {
    File {
        file: fs::File,
        store: Arc<PathBuf>,
        object: String,
    },
    S3 {
        bucket: Arc<Bucket>,
        object: String,
        part: BytesMut,
        upload: Option<(String, Vec<String>)>,
    },
}

impl Store {
    pub(crate) async fn directory(path: PathBuf) -> std::io::Result<Self> {
        fs::create_dir_all(&path).await?;
        Ok(Self::Directory(Arc::new(path)))
    }

    /// Begins an object; its name is an id, never what a client sent.
    pub(crate) async fn create(&self, object: &str) -> Result<Writer, BoxError> {
        let object = object.to_owned();
        Ok(match self {
            Self::Directory(path) => Writer::File {
                file: fs::File::create(path.join(format!("{object}.part"))).await?,
                store: path.clone(),
                object,
            },
            Self::S3(bucket) => Writer::S3 {
                bucket: bucket.clone(),
                object,
                part: BytesMut::new(),
                upload: None,
            },
        })
    }

    /// At most `len` bytes from that offset on; none at the end.
    pub(crate) async fn read(
        &self,
        object: &str,
        offset: u64,
        len: usize,
    ) -> Result<Bytes, BoxError> {
        match self {
            Self::Directory(path) => {
                let opened = fs::File::open(path.join(object)).await;
                let mut file = opened.map_err(|error| match error.kind() {
                    std::io::ErrorKind::NotFound => BoxError::from(Lacking::OBJECT),
                    _ => error.into(),
                })?;
                file.seek(std::io::SeekFrom::Start(offset)).await?;
                let mut bytes = Vec::with_capacity(len);
                file.take(len as u64).read_to_end(&mut bytes).await?;
                Ok(bytes.into())
            }
            Self::S3(bucket) => bucket.read(object, offset, len).await,
        }
    }

    /// Removes an object and what is left of an upload to it; fine if nothing is.
    pub(crate) async fn delete(&self, object: &str) -> Result<(), BoxError> {
        match self {
            Self::Directory(path) => {
                for name in [format!("{object}.part"), object.to_owned()] {
                    match fs::remove_file(path.join(name)).await {
                        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                            return Err(error.into());
                        }
                        _ => {}
                    }
                }
                Ok(())
            }
            Self::S3(bucket) => {
                bucket.abort_uploads(object).await?;
                bucket.delete(object).await
            }
        }
    }
}

impl Writer {
    pub(crate) async fn write(&mut self, mut bytes: Bytes) -> Result<(), BoxError> {
        match self {
            Self::File { file, .. } => Ok(file.write_all(&bytes).await?),
            Self::S3 {
                bucket,
                object,
                part,
                upload,
            } => {
                while !bytes.is_empty() {
                    let taken = bytes.split_to(bytes.len().min(PART_BYTES - part.len()));
                    part.extend_from_slice(&taken);
                    if part.len() == PART_BYTES {
                        let (id, etags) = match upload {
                            Some(upload) => upload,
                            None => {
                                upload.insert((bucket.create_upload(object).await?, Vec::new()))
                            }
                        };
                        let full = part.split().freeze();
                        etags.push(bucket.put_part(object, id, etags.len() + 1, full).await?);
                    }
                }
                Ok(())
            }
        }
    }

    /// Returns once the object is durable, as far as the store promises it.
    pub(crate) async fn finish(self) -> Result<(), BoxError> {
        match self {
            Self::File {
                mut file,
                store,
                object,
            } => {
                file.flush().await?;
                file.sync_all().await?;
                fs::rename(store.join(format!("{object}.part")), store.join(&object)).await?;
                // The name is durable with its directory.
                fs::File::open(&*store).await?.sync_all().await?;
                Ok(())
            }
            Self::S3 {
                bucket,
                object,
                part,
                upload: None,
            } => bucket.put(&object, part.freeze()).await,
            Self::S3 {
                bucket,
                object,
                part,
                upload: Some((id, mut etags)),
            } => {
                if !part.is_empty() {
                    etags.push(
                        bucket
                            .put_part(&object, &id, etags.len() + 1, part.freeze())
                            .await?,
                    );
                }
                bucket.complete_upload(&object, &id, &etags).await
            }
        }
    }
}
