//! The few calls of S3 that the pipeline needs, signed by Signature Version 4: any compatible
//! store, addressed by path.

mod sign;

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use punctual::time::{Clock, SystemClock, seconds, within};
use punctual::worker::BoxError;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::Url;

pub(crate) use sign::hex;
use sign::{Keys, Signing, encoded, payload_hash};

/// A call may take that long, a part of 5 MiB included.
const CALL_SECONDS_MAX: u64 = 60;
/// An answer has at most that many bytes: a range that was asked for, or a small document.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// A call that failed in transit is made again, as each may be.
const CALLS_MAX: usize = 4;

/// A bucket of a store.
pub(crate) struct Bucket {
    endpoint: Url,
    name: String,
    keys: Keys,
    region: String,
    tls: Option<TlsConnector>,
}

struct Answer {
    status: StatusCode,
    etag: Option<String>,
    body: Bytes,
}

impl Bucket {
    /// A bucket at the endpoint of a store: `http://127.0.0.1:9000`.
    pub(crate) fn new(
        endpoint: &str,
        name: &str,
        region: &str,
        keys: (String, String),
    ) -> Result<Self, BoxError> {
        let endpoint = Url::parse(endpoint).map_err(|error| format!("--s3-endpoint: {error}"))?;
        let tls = match endpoint.scheme() {
            "http" => None,
            "https" => Some(connector()?),
            _ => return Err("--s3-endpoint must be http:// or https://".into()),
        };
        if endpoint.host_str().is_none() || endpoint.path() != "/" {
            return Err("--s3-endpoint must be a host and no path".into());
        }
        let keys = Keys {
            id: keys.0,
            secret: keys.1,
        };
        let (name, region) = (name.to_owned(), region.to_owned());
        Ok(Self {
            endpoint,
            name,
            keys,
            region,
            tls,
        })
    }

    /// Where it is, without what a URL may hide: an error shows it.
    pub(crate) fn place(&self) -> String {
        let host = &self.endpoint[url::Position::BeforeHost..url::Position::AfterPort];
        format!("{}://{host}/{}", self.endpoint.scheme(), self.name)
    }

    /// Whether the bucket is there and the keys may use it.
    pub(crate) async fn check(&self) -> Result<(), BoxError> {
        let answer = self.call(Method::HEAD, "", &[], None, Bytes::new()).await?;
        match answer.status {
            status if status.is_success() => Ok(()),
            status => Err(format!(
                "bucket {} answers {status}; is it there, and are the keys right?",
                self.name
            )
            .into()),
        }
    }

    pub(crate) async fn put(&self, object: &str, body: Bytes) -> Result<(), BoxError> {
        self.done(Method::PUT, object, &[], body).await.map(drop)
    }

    pub(crate) async fn create_upload(&self, object: &str) -> Result<String, BoxError> {
        let answer = self
            .done(Method::POST, object, &[("uploads", "")], Bytes::new())
            .await?;
        let text = String::from_utf8_lossy(&answer.body);
        let id = elements(&text, "UploadId").next().map(str::to_owned);
        id.ok_or_else(|| "the store began an upload and named no UploadId".into())
    }

    pub(crate) async fn put_part(
        &self,
        object: &str,
        upload: &str,
        n: usize,
        body: Bytes,
    ) -> Result<String, BoxError> {
        let n = n.to_string();
        let query = [("partNumber", n.as_str()), ("uploadId", upload)];
        let answer = self.done(Method::PUT, object, &query, body).await?;
        answer
            .etag
            .ok_or_else(|| "the store took a part and answered no ETag".into())
    }

    pub(crate) async fn complete_upload(
        &self,
        object: &str,
        upload: &str,
        etags: &[String],
    ) -> Result<(), BoxError> {
        let parts = (1..).zip(etags).map(|(n, etag)| {
            let etag = etag.replace('&', "&amp;").replace('<', "&lt;");
            format!("<Part><PartNumber>{n}</PartNumber><ETag>{etag}</ETag></Part>")
        });
        let body = format!(
            "<CompleteMultipartUpload>{}</CompleteMultipartUpload>",
            parts.collect::<String>()
        );
        let answer = self
            .done(Method::POST, object, &[("uploadId", upload)], body.into())
            .await?;
        // This one call may answer 200 and an error in its body.
        match String::from_utf8_lossy(&answer.body).contains("<Error>") {
            true => Err("the store could not complete the upload".into()),
            false => Ok(()),
        }
    }

    /// Aborts the uploads to an object that a killed process left open.
    pub(crate) async fn abort_uploads(&self, object: &str) -> Result<(), BoxError> {
        let query = [("prefix", object), ("uploads", "")];
        let answer = self
            .call(Method::GET, "", &query, None, Bytes::new())
            .await?;
        // A store that does not list uploads keeps none.
        if answer.status == StatusCode::NOT_IMPLEMENTED {
            return Ok(());
        }
        let answer = succeeded(answer, "list uploads")?;
        let text = String::from_utf8_lossy(&answer.body);
        for upload in elements(&text, "UploadId") {
            let query = [("uploadId", upload)];
            let answer = self
                .call(Method::DELETE, object, &query, None, Bytes::new())
                .await?;
            if answer.status != StatusCode::NOT_FOUND {
                succeeded(answer, "abort an upload")?;
            }
        }
        Ok(())
    }

    pub(crate) async fn read(
        &self,
        object: &str,
        offset: u64,
        len: usize,
    ) -> Result<Bytes, BoxError> {
        let range = format!("bytes={offset}-{}", offset + len as u64 - 1);
        let answer = self
            .call(Method::GET, object, &[], Some(&range), Bytes::new())
            .await?;
        if answer.status == StatusCode::RANGE_NOT_SATISFIABLE {
            return Ok(Bytes::new());
        }
        if answer.status == StatusCode::NOT_FOUND {
            return Err(crate::store::Lacking::OBJECT.into());
        }
        let answer = succeeded(answer, "read")?;
        // A store that knows no ranges answers all of it.
        let from = if answer.status == StatusCode::PARTIAL_CONTENT {
            0
        } else {
            offset as usize
        };
        let to = answer.body.len().min(from.saturating_add(len));
        Ok(answer.body.slice(from.min(to)..to))
    }

    pub(crate) async fn delete(&self, object: &str) -> Result<(), BoxError> {
        let answer = self
            .call(Method::DELETE, object, &[], None, Bytes::new())
            .await?;
        match answer.status {
            StatusCode::NOT_FOUND => Ok(()),
            _ => succeeded(answer, "delete").map(drop),
        }
    }

    async fn done(
        &self,
        method: Method,
        object: &str,
        query: &[(&str, &str)],
        body: Bytes,
    ) -> Result<Answer, BoxError> {
        let what = method.to_string();
        succeeded(self.call(method, object, query, None, body).await?, &what)
    }

    /// A call, made again while the store cannot be reached or answers that it fails.
    async fn call(
        &self,
        method: Method,
        object: &str,
        query: &[(&str, &str)],
        range: Option<&str>,
        body: Bytes,
    ) -> Result<Answer, BoxError> {
        let mut backoff = punctual::backoff::Backoff::engine();
        let mut calls = 1;
        loop {
            let request = self.request(&method, object, query, range, body.clone())?;
            let answer = within(seconds(CALL_SECONDS_MAX), self.exchange(request)).await;
            let answer = answer.unwrap_or_else(|| Err("the store does not answer".into()));
            match answer {
                Ok(answer)
                    if !answer.status.is_server_error()
                        || answer.status == StatusCode::NOT_IMPLEMENTED =>
                {
                    return Ok(answer);
                }
                answer if calls == CALLS_MAX => return answer,
                _ => calls += 1,
            }
            punctual::time::pause(backoff.pause()).await;
        }
    }

    fn request(
        &self,
        method: &Method,
        object: &str,
        query: &[(&str, &str)],
        range: Option<&str>,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, BoxError> {
        let host = &self.endpoint[url::Position::BeforeHost..url::Position::AfterPort];
        let path = match object {
            "" => format!("/{}", encoded(&self.name, false)),
            object => format!("/{}/{}", encoded(&self.name, false), encoded(object, true)),
        };
        let now = SystemClock.now();
        let hash = payload_hash(&body);
        let signing = Signing {
            method: method.as_str(),
            path: &path,
            query,
            host,
            range,
            hash: &hash,
            now,
        };
        let authorization = signing.authorization(&self.keys, &self.region);
        let query = signing.query();
        let target = if query.is_empty() {
            path.clone()
        } else {
            format!("{path}?{query}")
        };
        let mut request = Request::builder()
            .method(method)
            .uri(target)
            .header(header::HOST, host)
            .header(header::CONTENT_LENGTH, body.len())
            .header("x-amz-content-sha256", &hash)
            .header("x-amz-date", signing.instant())
            .header(header::AUTHORIZATION, authorization);
        if let Some(range) = range {
            request = request.header(header::RANGE, range);
        }
        Ok(request.body(Full::new(body))?)
    }

    /// One connection for one call: the pipeline makes few and large ones.
    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Answer, BoxError> {
        let host = self.endpoint.host_str().unwrap_or_default();
        let port = self.endpoint.port_or_known_default().unwrap_or(443);
        let tcp = TcpStream::connect((host.trim_matches(['[', ']']), port)).await?;
        tcp.set_nodelay(true)?;
        match &self.tls {
            None => exchange(tcp, request).await,
            Some(tls) => {
                let name = ServerName::try_from(host.to_owned())?;
                exchange(tls.connect(name, tcp).await?, request).await
            }
        }
    }
}

async fn exchange<S>(stream: S, request: Request<Full<Bytes>>) -> Result<Answer, BoxError>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    let etag = answer
        .headers()
        .get(header::ETAG)
        .and_then(|etag| etag.to_str().ok())
        .map(str::to_owned);
    let body = http_body_util::Limited::new(answer.into_body(), ANSWER_BYTES_MAX);
    let body = body.collect().await?.to_bytes();
    connection.abort();
    Ok(Answer { status, etag, body })
}

fn succeeded(answer: Answer, what: &str) -> Result<Answer, BoxError> {
    if answer.status.is_success() {
        return Ok(answer);
    }
    let text = String::from_utf8_lossy(&answer.body);
    let code = elements(&text, "Code").next().unwrap_or("no code");
    Err(format!("the store refuses to {what}: {} ({code})", answer.status).into())
}

/// The texts of the elements of that name; the few documents that are read here nest no such
/// element in itself.
fn elements<'a>(document: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut rest = document;
    std::iter::from_fn(move || {
        let begin = rest.find(&open)? + open.len();
        let end = begin + rest[begin..].find(&close)?;
        let found = &rest[begin..end];
        rest = &rest[end..];
        Some(found)
    })
}

fn connector() -> Result<TlsConnector, BoxError> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
