//! Unit tests of `again`.

use std::cell::Cell;

use punctual::time::{Stopwatch, millis, seconds, within};
use punctual::{Error, ErrorKind, Result};

use super::again;

/// An engine that answers the call of a number, and how often it was asked.
struct Away {
    until: u32,
    kind: ErrorKind,
    asked: Cell<u32>,
}

impl Away {
    fn until(call: u32) -> Self {
        Self {
            until: call,
            kind: ErrorKind::EngineUnavailable,
            asked: Cell::new(0),
        }
    }

    async fn ask(&self) -> Result<&'static str> {
        self.asked.set(self.asked.get() + 1);
        match self.asked.get() < self.until {
            true => Err(Error::new(self.kind, format!("call {}", self.asked.get()))),
            false => Ok("there"),
        }
    }
}

#[tokio::test]
async fn an_answer_at_the_third_time_is_returned() {
    let engine = Away::until(3);
    let answer = again(seconds(60), || engine.ask()).await;
    assert_eq!(answer.expect("it is there"), "there");
    assert_eq!(engine.asked.get(), 3);
}

#[tokio::test]
async fn the_last_error_is_returned_once_an_engine_never_answered() {
    let engine = Away::until(u32::MAX);
    let watch = Stopwatch::start();
    let asking = again(millis(450), || engine.ask());
    let answer = within(seconds(60), asking)
        .await
        .expect("the time limit passes");
    assert!(watch.elapsed() >= millis(450), "not before that");
    let (error, asked) = (answer.expect_err("it is away"), engine.asked.get());
    assert!(asked > 1, "it is asked again");
    assert!(
        error.to_string().contains(&format!("call {asked}")),
        "{error}"
    );
}

#[tokio::test]
async fn an_error_that_no_retry_helps_is_returned_at_once() {
    let mut engine = Away::until(3);
    engine.kind = ErrorKind::InvalidInput;
    let answer = again(seconds(60), || engine.ask()).await;
    answer.expect_err("it is refused");
    assert_eq!(engine.asked.get(), 1);
}
