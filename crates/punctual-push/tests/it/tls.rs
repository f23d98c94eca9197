//! A server behind a certificate for `localhost` of an authority that no other client knows; one of
//! them expired in 2020.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) root: Vec<u8>,
}

const CERTIFICATE: &[u8] = include_bytes!("../tls/server.pem");
const KEY: &[u8] = include_bytes!("../tls/server.key");
const ROOT: &[u8] = include_bytes!("../tls/ca.pem");
const EXPIRED: &[u8] = include_bytes!("../tls/expired.pem");
const ROOT_OF_EXPIRED: &[u8] = include_bytes!("../tls/expired-ca.pem");

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with(CERTIFICATE, ROOT).await
    }

    /// One whose certificate was good until 2020.
    pub(crate) async fn expired() -> Self {
        Self::with(EXPIRED, ROOT_OF_EXPIRED).await
    }

    async fn with(certificate: &[u8], root: &[u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let chain = CertificateDer::pem_slice_iter(certificate);
        let chain = chain.collect::<Result<Vec<_>, _>>().expect("certificates");
        let key = PrivateKeyDer::from_pem_slice(KEY).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("a key that fits");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    continue;
                };
                let mut asked = [0; 4_096];
                let _ = stream.read(&mut asked).await;
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                let _ = stream.write_all(answer).await;
                let _ = stream.shutdown().await;
            }
        });
        let root = CertificateDer::from_pem_slice(root).expect("a root");
        Self {
            address,
            root: root.to_vec(),
        }
    }
}
