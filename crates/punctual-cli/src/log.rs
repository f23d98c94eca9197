//! What the library has to say while a command runs: warnings, on standard error.

use std::fmt::{self, Write as _};
use std::io::Write as _;
#[cfg(not(feature = "otel"))]
use std::sync::atomic::{AtomicU64, Ordering};

use punctual::time::{Clock, SystemClock};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
#[cfg(not(feature = "otel"))]
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata};

use crate::failure::Result;
use crate::output::plain;

/// Shows what `PUNCTUAL_LOG` (error, warn, info, debug, trace, off) asks for, or `usual`; as JSON
/// if `PUNCTUAL_LOG_FORMAT` is `json`.
///
/// With the feature `otel`, spans go to the collector that the environment names; they end with
/// what is answered.
pub(crate) fn start(usual: LevelFilter) -> Result<Log> {
    let asked = std::env::var("PUNCTUAL_LOG").ok();
    let level = asked.and_then(|level| level.parse().ok()).unwrap_or(usual);
    let lines = Lines {
        level,
        json: std::env::var("PUNCTUAL_LOG_FORMAT").is_ok_and(|format| format == "json"),
        #[cfg(not(feature = "otel"))]
        spans: AtomicU64::new(1),
    };
    #[cfg(feature = "otel")]
    return crate::otel::start(lines.layer());
    #[cfg(not(feature = "otel"))]
    {
        // No other code sets one in this process.
        let _ = tracing::subscriber::set_global_default(lines);
        Ok(None)
    }
}

/// What ends with the process.
#[cfg(feature = "otel")]
pub(crate) type Log = Option<crate::otel::Exporting>;
#[cfg(not(feature = "otel"))]
pub(crate) type Log = Option<std::convert::Infallible>;

/// One line per event; spans are not shown.
struct Lines {
    level: LevelFilter,
    json: bool,
    #[cfg(not(feature = "otel"))]
    spans: AtomicU64,
}

impl Lines {
    fn wants(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level && metadata.target().starts_with("punctual")
    }

    fn write(&self, event: &Event<'_>) {
        let level = event.metadata().level().as_str().to_lowercase();
        let line = if self.json {
            let mut object = Object::default();
            object.put("at", SystemClock.now().to_string());
            object.put("level", level);
            object.put("target", event.metadata().target());
            event.record(&mut object);
            serde_json::Value::from(object.0).to_string()
        } else {
            let mut text = Text::default();
            event.record(&mut text);
            plain(&format!("{level}: {}{}", text.message, text.fields)).into_owned()
        };
        // The reader may be gone.
        let _ = writeln!(std::io::stderr().lock(), "{line}");
    }
}

#[cfg(not(feature = "otel"))]
impl tracing::Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.wants(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    fn event(&self, event: &Event<'_>) {
        self.write(event);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[cfg(feature = "otel")]
mod layer {
    use tracing::{Event, Metadata, Subscriber};
    use tracing_subscriber::Layer;
    use tracing_subscriber::filter::filter_fn;
    use tracing_subscriber::layer::Context;
    use tracing_subscriber::registry::Registry;

    use super::Lines;

    impl Lines {
        pub(super) fn layer(self) -> impl Layer<Registry> + Send + Sync {
            let (level, json) = (self.level, self.json);
            let wanted = move |metadata: &Metadata<'_>| Self { level, json }.wants(metadata);
            self.with_filter(filter_fn(wanted))
        }
    }

    impl<S: Subscriber> Layer<S> for Lines {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            self.write(event);
        }
    }
}

/// An event as JSON, its fields beside its message.
#[derive(Default)]
struct Object(serde_json::Map<String, serde_json::Value>);

impl Object {
    fn put(&mut self, name: &str, value: impl Into<serde_json::Value>) {
        self.0.insert(name.into(), value.into());
    }
}

impl Visit for Object {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field.name(), value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), value);
    }
}

#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}
