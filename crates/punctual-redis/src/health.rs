//! What is wrong with the shards, for `info`: with the engine as a whole, or with one namespace.

use std::sync::Arc;

use punctual::engine::NamespaceProblem;
use punctual::{Error, ErrorKind, Result};

use crate::session::shards::Shard;

/// Shards that did not answer, and why not.
pub(crate) type Failed = Vec<(Arc<Shard>, Error)>;

/// Problems in words with the remedy.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Problems {
    pub(crate) of_engine: Vec<String>,
    pub(crate) of_namespaces: Vec<NamespaceProblem>,
}

/// Sorts what is wrong with shards while others answer: a server that is away is a problem of the
/// engine. Lost, damaged or refused data of a shard are its namespace's alone.
pub(crate) fn while_others_answer(failed: Failed, missing: Vec<NamespaceProblem>) -> Problems {
    let mut problems = Problems::default();
    for (shard, error) in failed {
        let (namespace, index) = (shard.namespace.clone(), shard.index);
        let message = error.message();
        let text = match error.kind() {
            ErrorKind::EngineUnavailable => {
                let text = format!("shard {namespace}/{index} does not answer: {message}");
                problems.of_engine.push(text);
                continue;
            }
            ErrorKind::DataMissing => message.to_owned(),
            _ => format!("shard {index} does not answer: {message}"),
        };
        let problem = NamespaceProblem::new(namespace, text);
        problems.of_namespaces.push(problem);
    }
    problems.of_namespaces.extend(missing);
    problems
}

/// What is wrong when no shard answers: lost data are a problem of the engine. Fails with what is
/// worst otherwise, unless servers are known to be away.
pub(crate) fn when_none_answers(
    failed: Failed,
    missing: Vec<NamespaceProblem>,
    is_degraded: bool,
) -> Result<Problems> {
    let (mut of_engine, mut unavailable) = (Vec::new(), None);
    for (_, error) in failed {
        match error.kind() {
            ErrorKind::DataMissing => of_engine.push(error.message().to_owned()),
            ErrorKind::EngineUnavailable => unavailable = Some(error),
            _ => return Err(error),
        }
    }
    match unavailable {
        Some(error) if !is_degraded => Err(error),
        _ => {
            of_engine.extend(missing.into_iter().map(|problem| problem.text));
            Ok(Problems {
                of_engine,
                of_namespaces: Vec::new(),
            })
        }
    }
}
