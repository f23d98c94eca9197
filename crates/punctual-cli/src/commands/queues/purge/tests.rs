//! Tests of what a purge reports while it goes on.

use std::cell::RefCell;

use punctual::{Engine as _, MemoryEngine, Namespace, NewJob};

use super::cancel_all;

#[tokio::test]
async fn a_purge_reports_its_progress_after_each_thousand_jobs() {
    let (engine, namespace) = (MemoryEngine::new(), Namespace::default());
    for jobs in [1_000, 1_000, 500] {
        let jobs = (0..jobs).map(|_| NewJob::new("mail", "{}")).collect();
        engine.enqueue(&namespace, jobs).await.expect("enqueue");
    }
    let reports = RefCell::new(Vec::new());
    let report = |done| reports.borrow_mut().push(done);
    let cancelled = cancel_all(&engine, &namespace, "mail", report).await;
    assert_eq!(cancelled.expect("a purge"), 2_500);
    assert_eq!(*reports.borrow(), [1_000, 2_000, 2_500]);
}
