//! Lists and numbers of a request, read within bounds.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::http::{Problem, Result};

/// What is kept of a list: one more than any call may carry, so that the engine refuses it.
const ITEMS_KEPT: usize = 1_001;

/// A list of which no more is kept than shows that it is too long.
pub(crate) struct Bounded<T>(pub(crate) Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Bounded<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Items<T> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sequence")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
                let mut items = Vec::new();
                while items.len() < ITEMS_KEPT {
                    match list.next_element()? {
                        Some(item) => items.push(item),
                        None => return Ok(items),
                    }
                }
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(items)
            }
        }
        deserializer.deserialize_seq(Items(PhantomData)).map(Self)
    }
}

/// A field that is a bounded list.
pub(crate) fn bounded<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    Bounded::deserialize(deserializer).map(|list| list.0)
}

/// The same of one that may be `null`.
pub(crate) fn bounded_some<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    let list: Option<Bounded<T>> = Option::deserialize(deserializer)?;
    Ok(list.map(|list| list.0))
}

/// A number that was sent, if it is within its bounds.
pub(crate) fn in_range(name: &str, number: usize, most: usize) -> Result<usize> {
    if (1..=most).contains(&number) {
        return Ok(number);
    }
    Err(Problem::invalid(format!("{name} is {number}")).hint(format!("use 1 to {most}")))
}

#[cfg(test)]
mod tests;
