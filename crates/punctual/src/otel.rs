//! Spans of `tracing` as OpenTelemetry knows them, and W3C trace context as text.

use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Has a span that has not begun go on with the trace of a well-formed `traceparent`.
pub(crate) fn go_on(span: &Span, parent: &str) {
    let mut parts = parent.split('-').skip(1);
    let mut next = || parts.next().unwrap_or_default();
    let (trace, by, flags) = (next(), next(), next());
    let (Ok(trace), Ok(by), Ok(flags)) = (
        TraceId::from_hex(trace),
        SpanId::from_hex(by),
        u8::from_str_radix(flags, 16),
    ) else {
        return;
    };
    let flags = TraceFlags::new(flags) & TraceFlags::SAMPLED;
    let by = SpanContext::new(trace, by, flags, true, TraceState::default());
    // Where no subscriber follows spans there is nothing to go on.
    let _ = span.set_parent(Context::new().with_remote_span_context(by));
}

/// The `traceparent` of what happens under this span, if OpenTelemetry follows it.
pub(crate) fn parent_under(span: &Span) -> Option<String> {
    let context = span.context();
    let span = context.span();
    let own = span.span_context();
    own.is_valid().then(|| {
        let flags = own.trace_flags().to_u8();
        format!("00-{}-{}-{flags:02x}", own.trace_id(), own.span_id())
    })
}
