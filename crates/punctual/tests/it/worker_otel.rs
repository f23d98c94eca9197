//! Tests of OpenTelemetry traces through a worker.

use std::sync::{Arc, Mutex};

use opentelemetry::trace::{SpanId, TracerProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use punctual::job::PARENT_HEADER;
use punctual::worker::Shutdown;
use punctual::{Context, JobRecord, MemoryEngine, NewJob, Outcome, Queue, Worker};
use tokio::sync::Notify;
use tracing::Instrument;
use tracing_subscriber::layer::SubscriberExt;

#[tokio::test]
async fn a_trace_leads_from_the_producer_over_the_job_to_its_follow_up() {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter.clone())
        .build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let _here = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));

    let engine = Arc::new(MemoryEngine::new());
    let queue = Queue::new(engine.clone());
    let request = tracing::info_span!("request");
    let put = async {
        let job = NewJob::new("mail", "{}").kind("first").traced();
        queue.enqueue_job(job).await.expect("enqueued");
    };
    put.instrument(request.clone()).await;
    drop(request);
    let ended = Arc::new(Notify::new());
    let (last, headers) = (ended.clone(), Arc::new(Mutex::new(Vec::new())));
    let seen = headers.clone();
    let worker =
        Worker::new(&engine)
            .queues(["mail"])
            .handle_any(move |job: JobRecord, ctx: Context| {
                seen.lock().expect("no panic").extend(job.headers.clone());
                if job.kind == "first" {
                    ctx.then(NewJob::new("mail", "{}").kind("second"))
                        .expect("room");
                } else {
                    last.notify_one();
                }
                std::future::ready(Outcome::Completed)
            });
    let stop = async move { ended.notified().await };
    worker
        .run_until(Shutdown::from(stop))
        .await
        .expect("it ends");

    let spans = exporter.get_finished_spans().expect("spans");
    let named = |name: &str, kind: Option<&str>| -> SpanData {
        let is_it = |span: &&SpanData| {
            let of_kind = |kind: &str| {
                let mut values = span
                    .attributes
                    .iter()
                    .filter(|one| one.key.as_str() == "kind");
                values.any(|one| one.value.as_str() == kind)
            };
            span.name == name && kind.is_none_or(of_kind)
        };
        spans
            .iter()
            .find(is_it)
            .unwrap_or_else(|| panic!("no {name} {kind:?}: {spans:?}"))
            .clone()
    };
    let (request, first, second) = (
        named("request", None),
        named("job", Some("first")),
        named("job", Some("second")),
    );
    assert_eq!(request.parent_span_id, SpanId::INVALID);
    assert_eq!(first.parent_span_id, request.span_context.span_id());
    assert_eq!(second.parent_span_id, first.span_context.span_id());
    for span in [&first, &second] {
        assert_eq!(
            span.span_context.trace_id(),
            request.span_context.trace_id()
        );
    }
    let headers = headers.lock().expect("no panic");
    let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["traceparent", "traceparent", PARENT_HEADER]);
}
