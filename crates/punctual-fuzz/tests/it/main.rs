//! Everything that reads bytes from outside: whatever they are, it answers a value or an error.

mod calendars;
mod calls;
mod http;
mod logs;
mod replies;
mod steps;
mod times;
