//! Metrics in the text format of Prometheus.

use std::fmt::{Display, Write as _};

use super::help::METRICS;

/// A text in the format of Prometheus, family by family.
#[derive(Debug, Default)]
pub(crate) struct Exposition(String);

impl Exposition {
    /// Begins a family: its samples follow at once.
    pub(crate) fn family(&mut self, name: &str, kind: &str) {
        if let Some((_, of, help)) = METRICS.iter().find(|(known, ..)| *known == name) {
            debug_assert_eq!(*of, kind, "kind of {name}");
            let _ = writeln!(self.0, "# HELP {name} {help}");
        }
        let _ = writeln!(self.0, "# TYPE {name} {kind}");
    }

    /// One sample; labels as they stand between the braces.
    pub(crate) fn sample(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = match labels {
            "" => writeln!(self.0, "{name} {value}"),
            labels => writeln!(self.0, "{name}{{{labels}}} {value}"),
        };
    }

    /// A family of one sample.
    pub(crate) fn gauge(&mut self, name: &str, value: impl Display) {
        self.family(name, "gauge");
        self.sample(name, "", value);
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }
}
