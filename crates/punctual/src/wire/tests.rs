//! Unit tests of `wire`.

use bytes::Bytes;

use super::{Answer, Call, Failed, decode, encode};
use crate::engine::{Claim, Engine, Namespace, WorkerId};
use crate::job::{Due, NewJob};
use crate::time::{ManualClock, Timestamp, millis};
use crate::{Error, ErrorKind, MemoryEngine};

#[test]
fn calls_and_answers_survive_the_wire() {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(async {
        let engine = MemoryEngine::with_clock(ManualClock::new(Timestamp::from_micros(7)));
        let namespace = Namespace::default();
        let mut job = NewJob::new("mail", Bytes::from_static(b"\x00\xff"));
        job.due = Due::After(millis(0));
        let calls = [
            Call::Enqueue(vec![job]),
            Call::Claim(Claim::new(WorkerId::random(), "mail", 5)),
            Call::Info,
            Call::Stats(Default::default()),
        ];
        for call in calls {
            let bytes = encode(&call).expect("bytes");
            assert_eq!(decode::<Call>(&bytes).expect("a call"), call);
            let answer = call.run(&engine as &dyn Engine, &namespace).await;
            assert!(!matches!(answer, Answer::Failed(_)), "{answer:?}");
            let bytes = encode(&answer).expect("bytes");
            assert_eq!(decode::<Answer>(&bytes).expect("an answer"), answer);
        }
    });
}

#[test]
fn errors_keep_kind_words_and_values() {
    let error = Error::new(ErrorKind::InvalidName, "no")
        .operation("enqueue")
        .with("index", 3);
    let bytes = encode(&Failed::from(&error)).expect("bytes");
    let back = Error::from(decode::<Failed>(&bytes).expect("an error"));
    assert_eq!(back.to_string(), error.to_string());
}

#[test]
fn strange_bytes_are_distinguished_from_calls() {
    for strange in [&b""[..], b"\x01\xc1", b"\xc1"] {
        let error = decode::<Call>(strange).expect_err("no call");
        assert!(error.to_string().contains("same version"), "{error}");
    }
    let mut later = encode(&Call::Info).expect("bytes");
    later[0] += 1;
    let error = decode::<Call>(&later).expect_err("a later version");
    assert!(error.to_string().contains("version: 2"), "{error}");
}
