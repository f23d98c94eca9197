//! Trace context: from the producer's header to the handler's span and the follow-ups.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use punctual::job::PARENT_HEADER;
use punctual::{Context, JobId, NewJob, Queue, Worker};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::support::*;

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Remembers the fields of spans named `job`.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<BTreeMap<&'static str, String>>>>);

struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl Subscriber for Spans {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut spans = self.0.lock().unwrap();
        if span.metadata().name() == "job" {
            let mut fields = Fields(BTreeMap::new());
            span.record(&mut fields);
            spans.push(fields.0);
        }
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_trace_goes_from_the_header_to_the_span_and_the_follow_up() {
    let (probe, _clock) = Probe::new();
    let spans = Spans::default();
    // This runtime has one thread: the worker's tasks run under it too.
    let _scope = tracing::subscriber::set_default(spans.clone());
    let queue = Queue::new(&probe);
    let traced = queue.enqueue(ping(1)).header("traceparent", TRACE);
    let first = traced.header("tracestate", "vendor=7").await.unwrap();
    queue.enqueue(ping(2)).await.unwrap();
    let follow_up = JobId::new();
    Worker::new(&probe)
        .concurrency(1)
        .handle(move |job: Ping, ctx: Context| async move {
            if job.n == 1 {
                let next = NewJob::new("after", "{}").header("own", "x");
                ctx.then(next.id(follow_up))?;
            }
            done()
        })
        .run_until_idle()
        .await
        .unwrap();
    let seen: Vec<Option<String>> = spans
        .0
        .lock()
        .unwrap()
        .iter()
        .map(|fields| fields.get("traceparent").cloned())
        .collect();
    assert_eq!(seen, [Some(TRACE.to_owned()), None]);
    let carried = [
        ("own", "x"),
        ("traceparent", TRACE),
        ("tracestate", "vendor=7"),
        (PARENT_HEADER, &first.id.to_string()),
    ];
    let carried = carried.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(probe.job(follow_up).await.headers, carried);
}
