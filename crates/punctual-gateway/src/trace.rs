//! The trace of a request (W3C trace context), for jobs that have none of their own.

use axum::http::HeaderMap;
use punctual::{NewJob, trace};

use crate::shared::Shared;

/// The two headers of a request, as those of a job.
pub(crate) struct RequestTrace {
    headers: Vec<(String, String)>,
    header_bytes_max: usize,
}

impl RequestTrace {
    /// Nothing, if the request names no trace, or none that is well formed.
    pub(crate) async fn of(headers: &HeaderMap, shared: &Shared) -> Option<Self> {
        let named = ["traceparent", "tracestate"].into_iter().flat_map(|name| {
            let values = headers.get_all(name).into_iter();
            let texts = values.filter_map(|value| value.to_str().ok());
            // In HTTP a tab is a space; in a job's header it is nothing that may stand there.
            let sound = texts.filter(|text| !text.is_empty() && !text.contains('\t'));
            sound.map(move |text| (name.to_owned(), text.to_owned()))
        });
        let headers: Vec<_> = named.collect();
        trace::parent(&headers)?;
        Some(Self {
            headers,
            header_bytes_max: shared.header_bytes_max().await,
        })
    }

    /// Has a job go on with it, unless it has a trace of its own.
    pub(crate) fn give(&self, job: &mut NewJob) {
        trace::inherit(&self.headers, job, self.header_bytes_max);
    }
}
