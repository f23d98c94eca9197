//! Namespaces that must be there, and are not.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use punctual::{Error, ErrorKind, Namespace};

/// Those that calls were refused for, as data are required and there were none.
#[derive(Debug, Default)]
pub(crate) struct Unbegun(Mutex<BTreeSet<Namespace>>);

/// As many are remembered; whoever asks for more is told all the same.
const REMEMBERED_MAX: usize = 16;

impl Unbegun {
    /// Notes that a look found nothing in a namespace, or that there is something by now.
    pub(crate) fn note(&self, namespace: &Namespace, is_missing: bool) {
        let mut known = self.known();
        if !is_missing {
            known.remove(namespace);
        } else if known.len() < REMEMBERED_MAX {
            known.insert(namespace.clone());
        }
    }

    /// What `health` says of them.
    pub(crate) fn problems(&self) -> Vec<String> {
        let known = self.known();
        let errors = known.iter().map(Self::error);
        errors.map(|error| error.message().to_owned()).collect()
    }

    /// What a call to such a namespace is answered.
    pub(crate) fn error(namespace: &Namespace) -> Error {
        let message = format!(
            "redis has nothing of namespace {namespace}, and the address says data=required: it was flushed, started \
             empty, or is another server or database; bring the data back, or begin anew without data=required"
        );
        Error::new(ErrorKind::DataMissing, message)
    }

    fn known(&self) -> MutexGuard<'_, BTreeSet<Namespace>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
