//! The registry: metrics that this process records through the crate `metrics`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use punctual::sync::Lock;

use super::buckets::Buckets;
use super::exposition::Exposition;
use super::{ENQUEUED, OF_THE_ENGINE, Shown};

/// What is counted in this process, for `/metrics`.
///
/// It is a recorder of the crate `metrics`: installed as the global one, the page also has what the
/// engine and workers in this process count. Clones are the same registry.
#[derive(Clone, Default)]
pub struct Registry(Arc<Mutex<BTreeMap<String, Family>>>);

/// Series of one name, by their labels as they are written.
type Family = BTreeMap<String, Series>;

#[derive(Clone)]
enum Series {
    Count(Arc<AtomicU64>),
    Level(Arc<AtomicU64>),
    Spans(Arc<Buckets>),
}

impl Series {
    fn kind(&self) -> &'static str {
        match self {
            Self::Count(_) => "counter",
            Self::Level(_) => "gauge",
            Self::Spans(_) => "histogram",
        }
    }
}

impl Registry {
    pub(super) fn count(&self, name: &str, labels: &[(&str, &str)]) -> Counter {
        self.counter(name, written(labels.iter().copied()))
    }

    pub(super) fn spans(&self, name: &str, labels: &[(&str, &str)]) -> Histogram {
        self.histogram(name, written(labels.iter().copied()))
    }

    pub(super) fn gauge(&self, name: &str) -> Gauge {
        self.level(name, String::new())
    }

    fn counter(&self, name: &str, labels: String) -> Counter {
        match self.series(name, labels, || Series::Count(Arc::default())) {
            Series::Count(count) => Counter::from_arc(count),
            _ => Counter::noop(),
        }
    }

    fn level(&self, name: &str, labels: String) -> Gauge {
        match self.series(name, labels, || Series::Level(Arc::default())) {
            Series::Level(level) => Gauge::from_arc(level),
            _ => Gauge::noop(),
        }
    }

    fn histogram(&self, name: &str, labels: String) -> Histogram {
        match self.series(name, labels, || Series::Spans(Arc::default())) {
            Series::Spans(spans) => Histogram::from_arc(spans),
            _ => Histogram::noop(),
        }
    }

    fn series(&self, name: &str, labels: String, new: impl FnOnce() -> Series) -> Series {
        let mut families = self.lock();
        let family = families.entry(name.to_owned()).or_default();
        family.entry(labels).or_insert_with(new).clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Family>> {
        self.0.locked()
    }

    /// Every family that is shown, in the order of their names, among them counters that are kept
    /// elsewhere.
    pub(super) fn write(
        &self,
        page: &mut Exposition,
        others: (&str, Vec<(String, u64)>),
        shown: Shown,
    ) {
        let mut families = self.lock().clone();
        if !shown.engine {
            families.remove(OF_THE_ENGINE);
        }
        let is_by_queue = |labels: &str| labels.starts_with("queue=") || labels.contains(",queue=");
        // The engine under the routes counts every enqueue; what a queue in this process counts is
        // among it.
        if let Some(enqueued) = families.get_mut(ENQUEUED) {
            enqueued.retain(|labels, _| !is_by_queue(labels));
        }
        if !shown.queues {
            for family in families.values_mut() {
                family.retain(|labels, _| !is_by_queue(labels));
            }
        }
        if !others.1.is_empty() {
            let family = families.entry(others.0.to_owned()).or_default();
            let series = |count| Series::Count(Arc::new(AtomicU64::new(count)));
            family.extend(
                others
                    .1
                    .into_iter()
                    .map(|(labels, count)| (labels, series(count))),
            );
        }
        for (name, family) in &families {
            let Some(first) = family.values().next() else {
                continue;
            };
            page.family(name, first.kind());
            for (labels, series) in family {
                match series {
                    Series::Count(count) => {
                        page.sample(name, labels, count.load(Ordering::Relaxed));
                    }
                    Series::Level(level) => {
                        let value = f64::from_bits(level.load(Ordering::Relaxed));
                        page.sample(name, labels, value);
                    }
                    Series::Spans(spans) => write_spans(page, name, labels, spans),
                }
            }
        }
    }
}

fn write_spans(page: &mut Exposition, name: &str, labels: &str, spans: &Buckets) {
    let (buckets, sum) = spans.read();
    let comma = if labels.is_empty() { "" } else { "," };
    let count = buckets.last().map_or(0, |(_, count)| *count);
    let bucket = format!("{name}_bucket");
    for (bound, up_to) in buckets {
        page.sample(&bucket, &format!("{labels}{comma}le=\"{bound}\""), up_to);
    }
    page.sample(&format!("{name}_sum"), labels, sum);
    page.sample(&format!("{name}_count"), labels, count);
}

/// Labels as they stand between the braces.
fn written<'a>(labels: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let pair = |(name, value): (&str, &str)| {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"");
        format!("{name}=\"{}\"", value.replace('\n', "\\n"))
    };
    labels.map(pair).collect::<Vec<_>>().join(",")
}

fn of_key(key: &Key) -> String {
    written(key.labels().map(|label| (label.key(), label.value())))
}

impl Recorder for Registry {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        self.counter(key.name(), of_key(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        self.level(key.name(), of_key(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        self.histogram(key.name(), of_key(key))
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Registry({} names)", self.lock().len())
    }
}
