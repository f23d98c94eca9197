//! TLS to a gateway: whose certificates are believed.

use std::path::Path;
use std::sync::Arc;

use punctual::{Error, ErrorKind, Result};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

/// How to greet a gateway by TLS.
#[derive(Clone)]
pub(crate) struct Greeting {
    pub(crate) connector: TlsConnector,
    pub(crate) name: ServerName<'static>,
}

impl Greeting {
    /// Trusts servers whose certificates are of the authorities in this PEM file, or those of the
    /// system. There is no way to trust every server.
    pub(crate) fn new(host: &str, authorities: Option<&Path>) -> Result<Self> {
        let name = ServerName::try_from(host.to_owned()).map_err(|error| {
            let message = "the gateway's host name cannot appear in a certificate";
            wrong(message).with("host", host).source(error)
        })?;
        let roots = match authorities {
            Some(file) => of_file(file)?,
            None => of_system()?,
        };
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong("TLS cannot be set up").source(error))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            connector: Arc::new(config).into(),
            name,
        })
    }
}

fn of_file(file: &Path) -> Result<RootCertStore> {
    let unread = || {
        let message = "the file has no CA certificate; name one in PEM";
        wrong(message).with("file", file.display())
    };
    let mut roots = RootCertStore::empty();
    let read = CertificateDer::pem_file_iter(file).map_err(|error| unread().source(error))?;
    for certificate in read {
        let certificate = certificate.map_err(|error| unread().source(error))?;
        roots
            .add(certificate)
            .map_err(|error| unread().source(error))?;
    }
    if roots.is_empty() {
        return Err(unread());
    }
    Ok(roots)
}

fn of_system() -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let message = "this system has no CA certificates; install ca-certificates, \
                       or name a file with ?ca=FILE";
        return Err(wrong(message));
    }
    Ok(roots)
}

fn wrong(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidInput, message)
}
