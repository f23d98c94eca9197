//! The place of a job in its flow, as JSON.

use punctual::flow::{FlowStep, Role, StepOf, StepPast};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::LineError;

/// Which step of which flow a job is.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = StepOf)]
#[serde(deny_unknown_fields)]
pub(super) struct StepOfLine {
    /// The flow's name.
    name: String,
    /// The step's name.
    step: String,
    /// `on_done`, `on_failed` or `on_settled` of a callback; exports have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    role: Option<String>,
    /// A hash of what was sent, 16 hexadecimal digits; exports have it, so that the same plan again
    /// is a duplicate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sent: Option<String>,
    /// Whether it is a callback that was released; exports have it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    fired: bool,
}

impl From<&StepOf> for StepOfLine {
    fn from(of: &StepOf) -> Self {
        Self {
            name: of.flow.clone(),
            step: of.step.clone(),
            role: None,
            sent: None,
            fired: false,
        }
    }
}

impl StepOfLine {
    /// What an export knows of it besides.
    pub(super) fn set(&mut self, role: Role, past: StepPast) {
        (self.role, self.sent, self.fired) = (role_text(role), Some(hash(past.sent)), past.fired);
    }

    /// The place of a job that is imported.
    pub(super) fn into_place(self) -> Result<FlowStep, LineError> {
        let missing = "is a step of a flow without `sent`; export all queues together, without \
                       --queue";
        let sent = self.sent.as_deref().ok_or(missing)?;
        let place = FlowStep::new(self.name, self.step).role(role_of(self.role.as_deref())?);
        Ok(place.past(StepPast::new(hash_of(sent)?).fired(self.fired)))
    }
}

/// The name of a role; a step has none.
pub(crate) fn role_text(role: Role) -> Option<String> {
    (role != Role::Step).then(|| role.name().to_owned())
}

pub(crate) fn role_of(name: Option<&str>) -> Result<Role, LineError> {
    let name = name.unwrap_or(Role::Step.name());
    let known = Role::ALL.into_iter().find(|one| one.name() == name);
    known.ok_or_else(|| format!("role {name:?} in its flow is not known"))
}

pub(crate) fn hash(sent: u64) -> String {
    format!("{sent:016x}")
}

pub(crate) fn hash_of(text: &str) -> Result<u64, LineError> {
    let is_hash = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u64::from_str_radix(text, 16).ok().filter(|_| is_hash);
    number.ok_or_else(|| "has a `sent` that is not 16 hexadecimal digits".to_owned())
}
