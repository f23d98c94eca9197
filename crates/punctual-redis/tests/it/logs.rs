//! What is logged, word for word.

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex};

use punctual::sync::Lock;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber};

/// Receives every event and span of this thread, of this program and of the libraries below it.
pub(crate) struct Logs {
    said: Arc<Mutex<String>>,
    _receives: DefaultGuard,
}

impl Logs {
    pub(crate) fn of_this_thread() -> Self {
        let said = Arc::<Mutex<String>>::default();
        let receives = tracing::subscriber::set_default(Ear(said.clone()));
        Self {
            said,
            _receives: receives,
        }
    }

    pub(crate) fn show(&self, line: &str) {
        tracing::trace!(line, "shown");
    }

    pub(crate) fn said(&self) -> String {
        let said = self.said.locked();
        said.clone()
    }
}

struct Ear(Arc<Mutex<String>>);

impl Ear {
    fn write(&self, record: impl FnOnce(&mut dyn Visit)) {
        let mut said = self.0.locked();
        record(&mut Line(&mut said));
        said.push('\n');
    }
}

impl Subscriber for Ear {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.write(|line| span.record(line));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        self.write(|line| values.record(line));
    }

    fn event(&self, event: &Event<'_>) {
        self.write(|line| event.record(line));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, " {field}={value:?}").expect("a string takes any text");
    }
}
