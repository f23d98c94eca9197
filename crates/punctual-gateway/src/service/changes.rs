//! Edits and controls of callers, each with its audit entries.

use punctual::Result;
use punctual::engine::{Control, Controlled, Edit, Edited};

use crate::http::Caller;
use crate::shared::Shared;

/// Makes an edit for a caller of the gateway.
pub(crate) async fn edit(shared: &Shared, caller: &Caller, edit: Edit) -> Result<Edited> {
    let engine = &*shared.engine;
    shared.audit.edit_as(engine, caller, edit).await
}

/// Makes a control for a caller of the gateway.
pub(crate) async fn control(
    shared: &Shared,
    caller: &Caller,
    control: Control,
) -> Result<Controlled> {
    let engine = &*shared.engine;
    shared.audit.control_as(engine, caller, control).await
}
