//! Fuzzes calls and answers over the wire.

use punctual::engine::{Claim, Extend, LeaseReport, Settle, Settlement, Target, Token, WorkerId};
use punctual::time::seconds;
use punctual::wire::{Answer, Call, decode, encode};
use punctual::{Effect, JobId, NewJob, Outcome};
use punctual_fuzz::fuzz;

fn job() -> NewJob {
    NewJob::new("orders", "{\"order\":7}")
        .id(JobId::derived("punctual fuzz", "job"))
        .headers(vec![("traceparent".into(), "00-1-1-01".into())])
        .wait_for(["paid"])
}

/// What is read as a call or an answer is written and read again as the same.
#[test]
fn calls_over_the_wire_are_read_or_refused() {
    let token = Token::new(7, 9);
    let mut settlement = Settlement::new(job().id, 1, Outcome::Completed);
    settlement.effects = vec![Effect::Enqueue(Box::new(job()))];
    let leases = vec![LeaseReport::new(token, vec![settlement])];
    let mut claim = Claim::new(WorkerId(5), "orders", 10);
    claim.nonce = 11;
    let extend = Extend::new(token, seconds(10)).jobs(vec![job().id]);
    let calls = [
        Call::Enqueue(vec![job()]),
        Call::Claim(claim),
        Call::Extend(vec![extend]),
        Call::Settle(Settle::new(leases)),
        Call::Get(vec![Target::Id(job().id)], true),
        Call::Maintain,
        Call::Info,
    ];
    let seeds = calls
        .map(|call| encode(&call).expect("a call is written"))
        .to_vec();
    let ran = fuzz("calls", seeds, 20_000, |input| {
        if let Ok(call) = decode::<Call>(input) {
            let written = encode(&call).expect("what was read is written");
            let again: Call = decode(&written).expect("and read again");
            // By bytes: a number that is none, which engines refuse, does not equal itself.
            assert_eq!(encode(&again).expect("and written again"), written);
        }
        if let Ok(answer) = decode::<Answer>(input) {
            encode(&answer).expect("what was read is written");
        }
    });
    println!("{ran:?}");
}
