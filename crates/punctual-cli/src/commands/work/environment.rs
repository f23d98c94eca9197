//! What a command finds in its environment: the job, and nothing of the worker's secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use punctual::{Context, JobRecord};

/// Our own variables that a command inherits. Any other one may be a secret: `PUNCTUAL_TOKEN`,
/// `PUNCTUAL_PUSH_SECRET`, or one that a later version adds.
const INHERITED: [&str; 3] = ["PUNCTUAL_OUTPUT", "PUNCTUAL_LOG", "PUNCTUAL_LOG_FORMAT"];
/// Where the jobs are. A command inherits it unless there is a password in it.
const ENGINE: &str = "PUNCTUAL_ENGINE";

/// Variables for one command, besides those that it inherits from the worker.
#[derive(Debug, Default)]
pub(super) struct Environment {
    pub(super) set: Vec<(String, String)>,
    /// Variables of the worker that the command does not get.
    pub(super) hidden: Vec<OsString>,
}

impl Environment {
    /// The variables of one attempt.
    pub(super) fn of(job: &JobRecord, namespace: &str, ctx: &Context) -> Self {
        let mut set: Vec<(String, String)> = Vec::new();
        let mut add = |name: &str, value: String| set.push((format!("PUNCTUAL_{name}"), value));
        add("ID", job.id.to_string());
        add("QUEUE", job.queue.clone());
        add("KIND", job.kind.clone());
        add("NAMESPACE", namespace.to_owned());
        add("ATTEMPT", job.attempt.to_string());
        add("FAILURES", job.failures.to_string());
        add("CRASHES", job.crashes.to_string());
        add("MAX_ATTEMPTS", job.max_attempts.to_string());
        add("PRIORITY", job.priority.to_string());
        add("DUE", job.due.to_string());
        add("ENQUEUED_AT", job.enqueued_at.to_string());
        add("CONTENT_TYPE", job.content_type.clone());
        add("FENCE", ctx.token().fence.to_string());
        if let Some(deadline) = ctx.deadline() {
            add("DEADLINE", deadline.to_string());
        }
        if let Some(unique) = &job.unique {
            add("UNIQUE", unique.key.clone());
        }
        if let Some(group) = &job.group {
            add("GROUP", group.key.clone());
        }
        if let Some(run) = &job.schedule {
            add("SCHEDULE", run.name.clone());
            add("INSTANT", run.at.to_string());
        }
        if let Some(of) = &job.flow {
            add("FLOW", of.flow.clone());
            add("STEP", of.step.clone());
        }
        add("HEADERS", json(&job.headers));
        for (name, value) in header_variables(&job.headers) {
            add(&name, value.to_owned());
        }
        Self {
            set,
            hidden: hidden(std::env::vars_os()),
        }
    }
}

/// All headers by their own names, as one JSON object.
fn json(headers: &[(String, String)]) -> String {
    let headers: BTreeMap<&String, &String> = headers.iter().map(|(n, v)| (n, v)).collect();
    serde_json::to_string(&headers).unwrap_or_default()
}

/// A variable for each header. Names that differ only in case, `-`, `.` and `_` are numbered in
/// their order: `a-b`, `a.b` and `a_b` become `HEADER_A_B`, `HEADER_A_B_2` and `HEADER_A_B_3`.
fn header_variables(headers: &[(String, String)]) -> Vec<(String, &str)> {
    let mut sorted: Vec<_> = headers.iter().collect();
    sorted.sort();
    let plain = |name: &str| format!("HEADER_{}", name.to_uppercase().replace(['-', '.'], "_"));
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let (firsts, others): (Vec<_>, Vec<_>) = sorted
        .into_iter()
        .partition(|(name, _)| taken.insert(plain(name)));
    let mut variables: Vec<(String, &str)> = firsts
        .iter()
        .map(|(name, value)| (plain(name), value.as_str()))
        .collect();
    for (name, value) in others {
        let numbered = (2..).map(|number| format!("{}_{number}", plain(name)));
        // A header of its own may have such a name: it keeps it.
        let free = numbered.into_iter().find(|name| taken.insert(name.clone()));
        variables.extend(free.map(|name| (name, value.as_str())));
    }
    variables
}

/// Which of these variables are ours and not for commands.
fn hidden(all: impl Iterator<Item = (OsString, OsString)>) -> Vec<OsString> {
    all.filter(|(name, value)| {
        let name = name.to_string_lossy();
        let value = value.to_string_lossy();
        let has_password = value.contains('@') || value.contains("password=");
        match name.strip_prefix("PUNCTUAL_") {
            None => false,
            Some(_) if name == ENGINE => has_password,
            Some(_) => !INHERITED.contains(&name.as_ref()),
        }
    })
    .map(|(name, _)| name)
    .collect()
}

#[cfg(test)]
mod tests;
