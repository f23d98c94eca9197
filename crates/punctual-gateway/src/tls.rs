//! TLS: the certificate chain and its key, read from files and reloaded on request.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use punctual::sync::SharedLock;
use punctual::{Error, ErrorKind, Result};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// What a gateway shows of itself to clients of TLS 1.2 or 1.3. Cheap to clone.
#[derive(Clone)]
pub struct Tls(Arc<Files>);

struct Files {
    certificates: PathBuf,
    key: PathBuf,
    present: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads a chain of certificates, the gateway's own first, and its private key, both as PEM.
    pub fn from_files(certificates: &Path, key: &Path) -> Result<Self> {
        let present = RwLock::new(read(certificates, key)?);
        Ok(Self(Arc::new(Files {
            certificates: certificates.to_owned(),
            key: key.to_owned(),
            present,
        })))
    }

    /// Reads both files again, for connections from now on. If they are no good, nothing changes.
    pub fn reload(&self) -> Result<()> {
        let again = read(&self.0.certificates, &self.0.key)?;
        *self.0.present.writing() = again;
        Ok(())
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.0.present.reading().clone().into()
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tls({})", self.0.certificates.display())
    }
}

fn read(certificates: &Path, key: &Path) -> Result<Arc<ServerConfig>> {
    let unread = |message: &'static str, path: &Path| {
        Error::new(ErrorKind::InvalidInput, message).with("file", path.display())
    };
    let no_chain = "the file has no certificate chain; name one in PEM";
    let chain = CertificateDer::pem_file_iter(certificates)
        .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
        .map_err(|error| unread(no_chain, certificates).source(error))?;
    if chain.is_empty() {
        return Err(unread(no_chain, certificates));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| {
        unread("the file has no private key; name one in PEM", key).source(error)
    })?;
    let provider = Arc::new(ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map(|builder| builder.with_no_client_auth())
        .and_then(|builder| builder.with_single_cert(chain, private))
        .map_err(|error| {
            let message = "the certificate and the key do not match; name a pair";
            unread(message, certificates).source(error)
        })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
