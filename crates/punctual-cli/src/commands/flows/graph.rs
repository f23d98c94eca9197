//! Shows which steps of a flow wait for which.

use std::collections::HashMap;

use punctual::JobId;
use punctual::flow::{Edge, On, StepStatus};

use super::{missing, queue};
use crate::args::Session;
use crate::failure::Result;
use crate::output::{Object, object};

pub(super) async fn run(session: &Session, name: &str, dot: bool) -> Result<()> {
    let flows = queue(session).flows();
    flows.get(name).await?.ok_or_else(|| missing(name))?;
    let steps = flows.steps(name).await?;
    let edges = flows.edges(name).await?;
    let names: HashMap<JobId, &str> = steps.iter().map(|step| (step.id, &*step.name)).collect();
    if session.out.is_json() {
        let edge = |edge: &Edge| {
            object!({
                "from": names.get(&edge.from), "from_id": edge.from.to_string(),
                "to": names.get(&edge.to), "to_id": edge.to.to_string(),
                "on": edge.on.name(), "met": edge.met,
            })
        };
        let edges: Vec<Object> = edges.iter().map(edge).collect();
        return session.out.json(&object!({ "name": name, "edges": edges }));
    }
    if dot {
        return written_as_dot(session, name, &steps, &edges);
    }
    let mut before: HashMap<JobId, Vec<&Edge>> = HashMap::new();
    for edge in &edges {
        before.entry(edge.to).or_default().push(edge);
    }
    for step in &steps {
        let state = match step.skipped {
            true => "skipped",
            false => step.state.name(),
        };
        session.out.line(format!("{}  {state}", step.name))?;
        for edge in before.remove(&step.id).unwrap_or_default() {
            let from = names.get(&edge.from).copied().unwrap_or("another job");
            let on = match edge.on {
                On::Completed => String::new(),
                on => format!("  {on}"),
            };
            session.out.line(format!("  after {from}{on}"))?;
        }
    }
    Ok(())
}

/// Names hold nothing that would have to be escaped.
fn written_as_dot(
    session: &Session,
    name: &str,
    steps: &[StepStatus],
    edges: &[Edge],
) -> Result<()> {
    let out = session.out;
    out.line(format!("digraph \"{name}\" {{"))?;
    for step in steps {
        let state = step.state.name();
        out.line(format!(
            "  \"{}\" [label=\"{}\\n{state}\"];",
            step.id, step.name
        ))?;
    }
    for edge in edges {
        let style = match edge.on {
            On::Completed => "",
            On::Failed => " [style=dashed, label=failed]",
            On::Settled => " [style=dotted, label=settled]",
        };
        out.line(format!("  \"{}\" -> \"{}\"{style};", edge.from, edge.to))?;
    }
    out.line("}")
}
