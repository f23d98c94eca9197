//! Spans of jobs to a collector of OpenTelemetry: OTLP, protobuf over HTTP in the clear.
//!
//! Collectors stand on the same host, or a sidecar's away; so there is no second TLS stack for
//! them.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};

use async_trait::async_trait;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use punctual::time::seconds;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::registry;

use crate::failure::{Failure, Result};

/// Variables with the address of a collector, as OpenTelemetry names them; the first counts more.
const ENDPOINTS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
];

/// An export under way; what is left is sent when it is dropped.
pub(crate) struct Exporting(SdkTracerProvider);

impl Drop for Exporting {
    fn drop(&mut self) {
        // A collector that is gone must not keep a worker from ending.
        let _ = self.0.shutdown_with_timeout(seconds(5));
    }
}

/// Exports spans beside the log, if a collector was named.
pub(crate) fn start(
    log: impl Layer<registry::Registry> + Send + Sync,
) -> Result<Option<Exporting>> {
    let named = ENDPOINTS.iter().find_map(|name| std::env::var(name).ok());
    let Some(endpoint) = named.filter(|endpoint| !endpoint.is_empty()) else {
        let _ = tracing::subscriber::set_global_default(registry().with(log));
        return Ok(None);
    };
    if !endpoint.starts_with("http:") {
        return Err(Failure::usage(format!("cannot send spans to {endpoint}"))
            .hint("name a collector over plain HTTP, such as the port 4318 of one on this host"));
    }
    let exporter = SpanExporter::builder().with_http();
    let exporter = exporter.with_http_client(Plain).build();
    let exporter = exporter
        .map_err(|error| Failure::usage(format!("cannot send spans to {endpoint}: {error}")))?;
    let resource = match std::env::var("OTEL_SERVICE_NAME") {
        Ok(name) if !name.is_empty() => Resource::builder(),
        _ => Resource::builder().with_service_name("punctual"),
    };
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(resource.build())
        .build();
    let ours = filter_fn(|metadata| {
        metadata.is_span()
            && metadata.target().starts_with("punctual")
            && *metadata.level() <= LevelFilter::INFO
    });
    let spans = tracing_opentelemetry::layer().with_tracer(provider.tracer("punctual"));
    // No other code sets one in this process.
    let all = registry().with(log).with(spans.with_filter(ours));
    let _ = tracing::subscriber::set_global_default(all);
    Ok(Some(Exporting(provider)))
}

/// One connection per request, from the exporter's own thread, which may wait.
#[derive(Debug)]
struct Plain;

#[async_trait]
impl HttpClient for Plain {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (head, body) = request.into_parts();
        let host = head
            .uri
            .host()
            .ok_or("the collector's address has no host")?;
        let place = (
            host.trim_matches(['[', ']']),
            head.uri.port_u16().unwrap_or(80),
        );
        let address = place.to_socket_addrs()?.next();
        let address = address.ok_or("the collector's host has no address")?;
        let mut stream = TcpStream::connect_timeout(&address, seconds(5))?;
        stream.set_read_timeout(Some(seconds(10)))?;
        stream.set_write_timeout(Some(seconds(10)))?;
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let (method, length) = (head.method, body.len());
        let mut sent = format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {length}\r\n"
        )
        .into_bytes();
        for (name, value) in &head.headers {
            sent.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
        }
        sent.extend_from_slice(b"\r\n");
        sent.extend_from_slice(&body);
        stream.write_all(&sent)?;
        let mut answer = Vec::new();
        stream.take(64 << 10).read_to_end(&mut answer)?;
        let status = answer
            .get(9..12)
            .and_then(|code| std::str::from_utf8(code).ok());
        let status: u16 = status.ok_or("the collector did not answer HTTP")?.parse()?;
        Ok(Response::builder().status(status).body(Bytes::new())?)
    }
}
