//! JSON objects whose fields stay in the order in which they are written down.

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// A JSON object, made by [`object!`].
#[derive(Debug)]
pub(crate) struct Object(pub(crate) Vec<(&'static str, Box<RawValue>)>);

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// A value as JSON; null for one that has no JSON, such as a map with odd keys.
pub(crate) fn raw(value: &impl Serialize) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_default()
}

/// Writes down a JSON object: `object!({ "id": id, "attempt": 1 })`.
macro_rules! object {
    ({ $($name:literal: $value:expr),* $(,)? }) => {
        $crate::output::Object(vec![$(($name, $crate::output::raw(&$value))),*])
    };
}
pub(crate) use object;
