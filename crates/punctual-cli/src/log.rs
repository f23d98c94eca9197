//! What the library has to say while a command runs: warnings, on standard error.

use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual::time::{Clock, SystemClock};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::output::plain;

/// Shows what `PUNCTUAL_LOG` (error, warn, info, debug, trace, off) asks for, or `usual`; as JSON if
/// `PUNCTUAL_LOG_FORMAT` is `json`.
pub(crate) fn start(usual: LevelFilter) {
    let asked = std::env::var("PUNCTUAL_LOG").ok();
    let level = asked.and_then(|level| level.parse().ok()).unwrap_or(usual);
    let lines = Lines {
        level,
        json: std::env::var("PUNCTUAL_LOG_FORMAT").is_ok_and(|format| format == "json"),
        spans: AtomicU64::new(1),
    };
    // Nobody else sets one in this process.
    let _ = tracing::subscriber::set_global_default(lines);
}

/// One line per event; spans are not shown.
struct Lines {
    level: LevelFilter,
    json: bool,
    spans: AtomicU64,
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level && metadata.target().starts_with("punctual")
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    fn event(&self, event: &Event<'_>) {
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
        // Nobody may be reading.
        let _ = writeln!(std::io::stderr().lock(), "{line}");
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
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
