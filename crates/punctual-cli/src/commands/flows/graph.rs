//! Shows which steps of a flow wait for which.

use std::collections::HashMap;

use punctual::flow::{Edge, On, StepStatus};
use punctual::{JobId, JobState};

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
        let mut edges: Vec<Object> = edges.iter().map(edge).collect();
        for step in &steps {
            edges.extend(step.outside.iter().map(|one| {
                object!({
                    "from_id": one.job.to_string(), "to": step.name, "to_id": step.id.to_string(),
                    "on": one.on.name(), "met": one.met,
                    "from_state": one.state.map(JobState::name),
                })
            }));
        }
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
        for one in &step.outside {
            let state = one.state.map_or("not kept", JobState::name);
            let on = match one.on {
                On::Completed => String::new(),
                on => format!("  {on}"),
            };
            session
                .out
                .line(format!("  after job {} ({state}){on}", one.job))?;
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
    for (step, one) in steps
        .iter()
        .flat_map(|step| step.outside.iter().map(move |one| (step, one)))
    {
        let state = one.state.map_or("not kept", JobState::name);
        out.line(format!(
            "  \"{0}\" [label=\"{0}\\n{state}\", style=dashed];\n  \"{0}\" -> \"{1}\"{2};",
            one.job,
            step.id,
            style_of(one.on)
        ))?;
    }
    for edge in edges {
        let style = style_of(edge.on);
        out.line(format!("  \"{}\" -> \"{}\"{style};", edge.from, edge.to))?;
    }
    out.line("}")
}

fn style_of(on: On) -> &'static str {
    match on {
        On::Completed => "",
        On::Failed => " [style=dashed, label=failed]",
        On::Settled => " [style=dotted, label=settled]",
    }
}
