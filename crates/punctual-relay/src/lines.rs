//! One JSON document per line: how a relay speaks with a process that knows another system.
//!
//! A source writes a line per message to its standard output, and reads an answer per message:
//!
//! ```text
//! {"name":"17","job":{"queue":"mail","payload":{"to":"ann"},"delay":"30m"}}
//! {"name":"17","stored":"04f9eeb6-3bf7-873f-92c6-5bfedc883a00"}
//! {"name":"18","refused":"payload is over the limit"}
//! ```
//!
//! It may forget a message once it is stored or refused, and not before: what it sends again under
//! the same name is recognised. A source may also write `{"lag":3}`, how many messages wait, and
//! `{"keeps_refused":true}`, that it keeps refused messages itself. A message with
//! `"bad":"why"` is refused for that reason.
//!
//! A sink reads a line per job, and writes an answer per job, in any order:
//!
//! ```text
//! {"id":"04f9eeb6-3bf7-873f-92c6-5bfedc883a00","job":{"queue":"mail","payload":{"to":"ann"}}}
//! {"id":"04f9eeb6-3bf7-873f-92c6-5bfedc883a00","done":true}
//! {"id":"04f9eeb6-3bf7-873f-92c6-5bfedc883a00","error":"no route","permanent":true}
//! ```

mod process;
mod sink;
mod source;

pub use sink::{LineSink, WriteJob};
pub use source::{LineSource, ReadJob};
