//! Laws over random flows: what an engine does with them is what a model says, step by step.

use super::case::*;
use super::draw::Draw;
use super::flow_calls::*;
use crate::engine::{Action, EditVerdict};
use crate::flow::{FlowCounts, On, OnFailure, Role};
use crate::job::{JobId, JobState, NewJob, Outcome};

const FLOWS: u64 = 16;
const STEPS_MAX: u64 = 30;
const ACTIONS_MAX: usize = 120;
const FLOWS_MOVED: u64 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Is {
    Waiting,
    Free,
    Ended { state: JobState, skipped: bool },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edge {
    Waiting,
    Met,
    Broken,
}

/// A flow as it should be; it shares no code with the machine.
#[derive(Debug)]
struct Model {
    policy: OnFailure,
    nodes: Vec<Is>,
    /// From, to, how, and what has become of it.
    edges: Vec<(usize, usize, On, Edge)>,
    asked_to_stop: Vec<bool>,
    fired: bool,
}

fn name(node: usize) -> String {
    format!("s{node}")
}

impl Model {
    fn random(draw: &mut Draw) -> Self {
        let steps = 1 + draw.below(STEPS_MAX) as usize;
        let ways = [
            On::Completed,
            On::Completed,
            On::Completed,
            On::Failed,
            On::Settled,
        ];
        let mut edges = Vec::new();
        for to in 1..steps {
            for from in 0..to {
                if draw.below(to as u64 + 2) < 2 {
                    let on = ways[draw.below(5) as usize];
                    edges.push((from, to, on, Edge::Waiting));
                }
            }
        }
        let mut model = Self {
            policy: OnFailure::ALL[draw.below(3) as usize],
            nodes: vec![Is::Waiting; steps],
            edges,
            asked_to_stop: vec![false; steps],
            fired: false,
        };
        for node in 0..steps {
            model.free_if_met(node);
        }
        model
    }

    fn jobs(&self) -> Vec<NewJob> {
        let job = |node: usize| {
            let edges = self.edges.iter().filter(|(_, to, ..)| *to == node);
            let after: Vec<_> = edges.map(|(from, _, on, _)| (name(*from), *on)).collect();
            let after: Vec<_> = after
                .iter()
                .map(|(from, on)| (from.as_str(), *on))
                .collect();
            step(&name(node), &after)
        };
        let mut jobs: Vec<NewJob> = (0..self.nodes.len()).map(job).collect();
        jobs.push(callback(Role::OnSettled));
        jobs
    }

    fn has(&self, node: usize, is: Edge) -> bool {
        let mut edges = self.edges.iter();
        edges.any(|(_, to, _, edge)| *to == node && *edge == is)
    }

    fn free_if_met(&mut self, node: usize) {
        let waits = self.has(node, Edge::Waiting) || self.has(node, Edge::Broken);
        if self.nodes[node] == Is::Waiting && !waits {
            self.nodes[node] = Is::Free;
        }
    }

    fn ends(&mut self, node: usize, state: JobState, skipped: bool) {
        if matches!(self.nodes[node], Is::Ended { .. }) {
            return;
        }
        self.nodes[node] = Is::Ended { state, skipped };
        let failed = state != JobState::Completed && !skipped;
        if failed && self.policy == OnFailure::CancelRest {
            self.cancel_rest();
        }
        for nth in 0..self.edges.len() {
            let (from, to, on, edge) = self.edges[nth];
            if from != node || edge != Edge::Waiting {
                continue;
            }
            let goes_on = self.policy == OnFailure::Continue && on == On::Completed;
            let met = match on {
                On::Completed => state == JobState::Completed,
                On::Failed => state != JobState::Completed,
                On::Settled => true,
            };
            self.edges[nth].3 = match met || goes_on {
                true => Edge::Met,
                false => Edge::Broken,
            };
            match met || goes_on {
                true => self.free_if_met(to),
                false => self.ends(to, JobState::Cancelled, true),
            }
        }
        self.fired |= self.nodes.iter().all(|is| matches!(is, Is::Ended { .. }));
    }

    fn cancel_rest(&mut self) {
        for node in 0..self.nodes.len() {
            let mends = self
                .edges
                .iter()
                .any(|(_, to, on, _)| *to == node && *on == On::Failed);
            if !mends {
                self.ends(node, JobState::Cancelled, true);
            }
        }
    }

    /// Whether the step may run again.
    fn redriven(&mut self, node: usize) -> bool {
        if self.has(node, Edge::Broken) {
            return false;
        }
        self.nodes[node] = Is::Waiting;
        self.free_if_met(node);
        self.reopen(node);
        true
    }

    fn reopen(&mut self, node: usize) {
        for nth in 0..self.edges.len() {
            let (from, to, _, edge) = self.edges[nth];
            let was_skipped = matches!(self.nodes[to], Is::Ended { skipped: true, .. });
            // One that is free to run waits again, too: none is active between two actions.
            let waits = matches!(self.nodes[to], Is::Waiting | Is::Free);
            if from != node || edge == Edge::Waiting || !(was_skipped || waits) {
                continue;
            }
            self.edges[nth].3 = Edge::Waiting;
            if waits {
                self.nodes[to] = Is::Waiting;
            }
            if was_skipped && !self.has(to, Edge::Broken) {
                self.nodes[to] = Is::Waiting;
                self.reopen(to);
            }
        }
    }

    fn counts(&self) -> FlowCounts {
        let mut counts = FlowCounts {
            steps: self.nodes.len() as u64,
            ..FlowCounts::default()
        };
        for is in &self.nodes {
            match is {
                Is::Ended { skipped: true, .. } => counts.skipped += 1,
                Is::Ended {
                    state: JobState::Completed,
                    ..
                } => counts.completed += 1,
                Is::Ended {
                    state: JobState::Cancelled,
                    ..
                } => counts.cancelled += 1,
                Is::Ended { .. } => counts.dead += 1,
                _ => counts.open += 1,
            }
        }
        counts
    }

    fn node(&self, id: JobId) -> Option<usize> {
        (0..self.nodes.len()).find(|node| super::flow_calls::id(&name(*node)) == id)
    }
}

/// Random flows, whose steps end at random and run again at random, are as the model says after
/// each action, and their counts are those of a recount.
pub(super) async fn random_flows_agree_with_a_model(case: Case) {
    play(case, FLOWS, false).await;
}

/// Random flows that are exported and imported at random between their actions are as the model
/// says all the same, and their callbacks run once.
pub(super) async fn random_flows_move_half_way(case: Case) {
    play(case, FLOWS_MOVED, true).await;
}

async fn play(case: Case, flows: u64, moves: bool) {
    for seed in 0..flows {
        let mut case = case.another().await;
        let mut draw = Draw(seed);
        let mut moving = Draw(!seed);
        let mut model = Model::random(&mut draw);
        case.plan(model.jobs(), model.policy).await;
        let mut callbacks = 0;
        for nth in 0..ACTIONS_MAX {
            let at = format!("flow {seed}, action {nth}");
            let free = model.nodes.contains(&Is::Free);
            if !free && (nth > ACTIONS_MAX / 2 || draw.below(3) == 0) {
                break;
            }
            callbacks += act(&case, &mut model, &mut draw, &at).await;
            agree(&case, &model, &at).await;
            if moves && moving.below(8) == 0 {
                case = moved(case, &mut model).await;
                agree(&case, &model, &format!("{at}, then moved")).await;
            }
        }
        callbacks += case.drain_callbacks().await;
        assert_eq!(callbacks, u64::from(model.fired), "flow {seed}");
    }
}

/// The flow in another engine, which goes on with it.
async fn moved(case: Case, model: &mut Model) -> Case {
    let other = case.another().await;
    other.set_time(case.clock()).await;
    other.import_flow(&case.exported().await).await;
    let failed = |is: &Is| match is {
        Is::Ended { state, skipped } => *state != JobState::Completed && !skipped,
        _ => false,
    };
    if model.policy == OnFailure::CancelRest && model.nodes.iter().any(failed) {
        model.cancel_rest();
    }
    other
}

impl Case {
    /// Runs the callback if it is ready; how often.
    async fn drain_callbacks(&self) -> u64 {
        let mut runs = 0;
        let on_settled = callback_id(Role::OnSettled);
        for attempt in self.claim(1_000).await {
            if attempt.id() == on_settled {
                self.complete(&attempt).await;
                runs += 1;
            } else {
                self.end(&attempt, Outcome::Released).await;
            }
        }
        runs
    }
}

/// One random action, on the engine and on the model; how often the callback ran by it.
async fn act(case: &Case, model: &mut Model, draw: &mut Draw, at: &str) -> u64 {
    let node = draw.below(model.nodes.len() as u64) as usize;
    let step = id(&name(node));
    match draw.below(10) {
        0 => {
            case.cancel(step).await;
            if !matches!(model.nodes[node], Is::Ended { .. }) {
                model.ends(node, JobState::Cancelled, false);
            }
            0
        }
        1 if matches!(model.nodes[node], Is::Ended { .. }) => {
            let verdict = case.edit(step, Action::Redrive).await;
            let may = matches!(verdict, EditVerdict::Done(_));
            assert_eq!(model.redriven(node), may, "{at}: {verdict:?}");
            0
        }
        _ => run_one(case, model, draw, at).await,
    }
}

async fn run_one(case: &Case, model: &mut Model, draw: &mut Draw, at: &str) -> u64 {
    let mut claimed = case.claim(1).await;
    let Some(attempt) = claimed.pop() else {
        assert!(!model.nodes.contains(&Is::Free), "{at}: a step may run");
        return 0;
    };
    let Some(node) = model.node(attempt.id()) else {
        assert_eq!(attempt.id(), callback_id(Role::OnSettled), "{at}");
        assert!(model.fired, "{at}: the flow has not settled");
        case.complete(&attempt).await;
        return 1;
    };
    assert_eq!(model.nodes[node], Is::Free, "{at}: step {node} has to wait");
    // While it is active, a cancel only asks it to stop.
    if draw.below(8) == 0 {
        case.cancel(attempt.id()).await;
        model.asked_to_stop[node] = true;
    }
    let asked = std::mem::take(&mut model.asked_to_stop[node]);
    let outcome = match draw.below(10) {
        0 | 1 => Outcome::Dead,
        2 => Outcome::Cancelled,
        3 => Outcome::Released,
        _ => Outcome::Completed,
    };
    case.end(&attempt, outcome.clone()).await;
    match outcome {
        Outcome::Completed => model.ends(node, JobState::Completed, false),
        Outcome::Dead => model.ends(node, JobState::Dead, false),
        Outcome::Released if !asked => {}
        _ => model.ends(node, JobState::Cancelled, false),
    }
    0
}

async fn agree(case: &Case, model: &Model, at: &str) {
    assert_eq!(case.flow_counts().await, model.counts(), "{at}");
    for (node, found) in case.flow_steps().await.into_iter().enumerate() {
        assert_eq!(found.name, name(node), "{at}");
        let is = match found.state {
            JobState::Held => Is::Waiting,
            state if state.is_settled() => Is::Ended {
                state,
                skipped: found.skipped,
            },
            _ => Is::Free,
        };
        assert_eq!(is, model.nodes[node], "{at}: step {node} of {model:#?}");
    }
}
