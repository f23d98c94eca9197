//! Which subscriptions a message matches: a trie of the tokens of their patterns.

use std::collections::HashMap;
use std::time::Duration;

use super::{Delivery, Message, Subscription, Subscriptions};
use crate::engine::{RecordValue, VersionedRecord};
use crate::error::{Error, ErrorKind, Result};

/// The subscriptions of one version, ready to match.
#[derive(Debug)]
pub struct Matcher {
    version: u64,
    subscriptions: Vec<Subscription>,
    nodes: Vec<Node>,
    needs_due: bool,
}

/// Where patterns that begin with the same tokens part. Numbers are places of nodes; 0 is the root,
/// to which none leads.
#[derive(Debug, Default)]
struct Node {
    next: HashMap<Box<str>, usize>,
    any: usize,
    /// Subscriptions whose pattern ends here.
    ends: Vec<usize>,
    /// Subscriptions whose pattern goes on with `>`.
    rest: Vec<usize>,
}

/// One subscription, and why a message does not match it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Match<'a> {
    /// The subscription.
    pub subscription: &'a Subscription,
    /// Why the message does not match; `None` if it does.
    pub why_not: Option<String>,
}

impl Matcher {
    /// The matcher of what a record holds; of no record, one without subscriptions.
    ///
    /// # Errors
    /// `invalid_input` if the record holds something else.
    pub fn of(record: Option<&VersionedRecord>) -> Result<Self> {
        match record {
            None => Ok(Self::new(0, Subscriptions::default())),
            Some(VersionedRecord {
                version,
                value: RecordValue::Opaque(bytes),
            }) => Ok(Self::new(*version, Subscriptions::read(bytes)?)),
            Some(_) => Err(Error::new(
                ErrorKind::InvalidInput,
                "record topics holds no subscriptions; use `punctual topics`",
            )),
        }
    }

    /// The matcher of subscriptions that were checked.
    pub fn new(version: u64, read: Subscriptions) -> Self {
        let mut nodes = vec![Node::default()];
        for (index, subscription) in read.subscriptions.iter().enumerate() {
            let mut at = 0;
            let mut goes_on = false;
            for token in subscription.pattern.split('.') {
                match token {
                    ">" | "#" => goes_on = true,
                    "*" => {
                        if nodes[at].any == 0 {
                            nodes[at].any = nodes.len();
                            nodes.push(Node::default());
                        }
                        at = nodes[at].any;
                    }
                    token => {
                        let fresh = nodes.len();
                        at = *nodes[at].next.entry(token.into()).or_insert(fresh);
                        if at == fresh {
                            nodes.push(Node::default());
                        }
                    }
                }
            }
            match goes_on {
                true => nodes[at].rest.push(index),
                false => nodes[at].ends.push(index),
            }
        }
        let filters = read.subscriptions.iter().flat_map(|one| &one.filters);
        Self {
            version,
            needs_due: filters.into_iter().any(|filter| filter.needs_due()),
            nodes,
            subscriptions: read.subscriptions,
        }
    }

    /// The version of the record; 0 if there is none.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The subscriptions, in order of their names.
    pub fn subscriptions(&self) -> &[Subscription] {
        &self.subscriptions
    }

    /// Whether any of them asks when a message is due.
    pub fn needs_due(&self) -> bool {
        self.needs_due
    }

    /// The subscriptions that a message matches which is due in that span, in order of their names.
    pub fn matching(&self, message: &Message, due_in: Duration) -> Vec<&Subscription> {
        let mut found = self.of_subject(message.subject());
        found.sort_unstable();
        let all = found.into_iter().map(|index| &self.subscriptions[index]);
        all.filter(|one| {
            one.filters
                .iter()
                .all(|filter| filter.passes(message.job(), due_in))
                && (one.delivery != Delivery::Cancel || message.job().unique.is_some())
        })
        .collect()
    }

    /// Every subscription, with why a message does not match it.
    pub fn explain(&self, message: &Message, due_in: Duration) -> Vec<Match<'_>> {
        let of_subject = self.of_subject(message.subject());
        let all = self.subscriptions.iter().enumerate();
        let line = |(index, subscription): (usize, _)| Match {
            subscription,
            why_not: match of_subject.contains(&index) {
                true => why_not(subscription, message, due_in),
                false => Some(format!(
                    "the subject does not match the pattern {}",
                    subscription.pattern
                )),
            },
        };
        all.map(line).collect()
    }

    /// The places of subscriptions whose pattern matches.
    fn of_subject(&self, subject: &str) -> Vec<usize> {
        let tokens: Vec<&str> = subject.split('.').collect();
        let mut found = Vec::new();
        let mut open = vec![(0, 0)];
        while let Some((at, depth)) = open.pop() {
            let node = &self.nodes[at];
            let Some(token) = tokens.get(depth) else {
                found.extend(&node.ends);
                continue;
            };
            found.extend(&node.rest);
            if node.any > 0 {
                open.push((node.any, depth + 1));
            }
            if let Some(next) = node.next.get(*token) {
                open.push((*next, depth + 1));
            }
        }
        found
    }
}

fn why_not(subscription: &Subscription, message: &Message, due_in: Duration) -> Option<String> {
    if subscription.delivery == Delivery::Cancel && message.job().unique.is_none() {
        return Some("it cancels by the unique key, and the message has none".into());
    }
    let mut filters = subscription.filters.iter();
    filters.find_map(|filter| filter.why_not(message.job(), due_in))
}
