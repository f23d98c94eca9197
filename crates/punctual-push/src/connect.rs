//! From a target to a connection with one of its checked addresses.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use hyper_util::rt::TokioIo;
use punctual::time::{seconds, within};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::guard::{Guard, Target};
use crate::resolve::{LookupPermits, Lookups};

/// Why no server was reached.
#[derive(Debug)]
pub(crate) enum Unreached {
    /// An address is refused: nothing was sent.
    Refused(String),
    /// No connection: the name has no address, the target does not answer, or TLS fails.
    Failed(String),
}

pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

pub(crate) type Connection = TokioIo<Box<dyn Stream>>;

/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 8;
/// How long one address may take to answer, if there are others.
const CONNECT_SECONDS_MAX: u64 = 5;

/// Resolves the target, checks every address, and connects to one that was checked: the name is
/// not resolved again, so its meaning cannot change in between. A name needs a permit.
pub(crate) async fn connect(
    target: &Target,
    guard: &Guard,
    lookups: &Lookups,
    permits: Option<LookupPermits>,
    tls: &Tls,
) -> Result<Connection, Unreached> {
    let name = target.name();
    let addresses = match (target.address(), permits) {
        (Some(address), _) => vec![address],
        (None, Some(permits)) => lookups.resolve(&name, permits).await.map_err(|error| {
            Unreached::Failed(format!("the name {name} could not be resolved: {error}"))
        })?,
        (None, None) => Vec::new(),
    };
    for address in &addresses {
        let admitted = guard.admit(target, *address);
        admitted.map_err(|error| Unreached::Refused(error.message().to_owned()))?;
    }
    let mut failure = format!("the name {name} has no address");
    for address in addresses.iter().take(ADDRESSES_MAX) {
        let address = SocketAddr::new(*address, target.port());
        match within(seconds(CONNECT_SECONDS_MAX), TcpStream::connect(address)).await {
            Some(Ok(stream)) => {
                // Small requests at once; a socket that refuses that sends them all the same.
                let _ = stream.set_nodelay(true);
                return tls.wrap(target, stream).await;
            }
            Some(Err(error)) => failure = format!("{address} could not be reached: {error}"),
            None => {
                failure = format!("{address} could not be reached within {CONNECT_SECONDS_MAX}s");
            }
        }
    }
    Err(Unreached::Failed(failure))
}

/// TLS with the roots of the system, read when they are first needed.
#[derive(Default)]
pub(crate) struct Tls {
    config: OnceLock<Result<Arc<ClientConfig>, String>>,
    more: Vec<CertificateDer<'static>>,
}

impl Tls {
    /// Trusts these roots besides those of the system.
    pub(crate) fn with_roots(roots: Vec<CertificateDer<'static>>) -> Self {
        Self {
            more: roots,
            ..Self::default()
        }
    }

    async fn wrap(&self, target: &Target, stream: TcpStream) -> Result<Connection, Unreached> {
        if !target.is_tls() {
            return Ok(TokioIo::new(Box::new(stream)));
        }
        let config = self.config.get_or_init(|| self.configure());
        let config = config.clone().map_err(Unreached::Failed)?;
        let name = ServerName::try_from(target.name())
            .map_err(|_| Unreached::Failed("the host is not a valid TLS name".into()))?;
        let connected = TlsConnector::from(config).connect(name, stream).await;
        let stream = connected.map_err(|error| Unreached::Failed(disagreed(target, &error)))?;
        Ok(TokioIo::new(Box::new(stream)))
    }

    fn configure(&self) -> Result<Arc<ClientConfig>, String> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots.add_parsable_certificates(self.more.iter().cloned());
        if roots.is_empty() {
            return Err("the system has no root certificates; install ca-certificates".into());
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS could not be set up: {error}"))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Arc::new(config))
    }
}

/// Why TLS was not agreed on. A certificate that has expired is the one reason that comes by
/// itself, to a target that worked until then: it has a name.
fn disagreed(target: &Target, error: &std::io::Error) -> String {
    use rustls::CertificateError::{Expired, ExpiredContext};
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    match inner {
        Some(rustls::Error::InvalidCertificate(Expired | ExpiredContext { .. })) => format!(
            "target_certificate_expired: the certificate of {}:{} has expired; its operator must renew it ({error})",
            target.name(),
            target.port()
        ),
        _ => format!("the TLS handshake failed: {error}"),
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}
