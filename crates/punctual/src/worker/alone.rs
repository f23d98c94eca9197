//! What this process runs alone: a suspect with nothing beside it, in whichever of its workers.

use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use super::runtime::{Phase, Runtime};
use super::slots::Board;
use crate::sync::Lock;

/// The workers of this process that share it with their handlers, and whose turn it is to be alone.
#[derive(Default)]
struct House {
    workers: Vec<Weak<Runtime>>,
    taken: bool,
}

static HOUSE: Mutex<Option<House>> = Mutex::new(None);
static LEFT: Notify = Notify::const_new();

/// Notes a worker that begins to run; isolated ones run nothing here.
pub(super) fn move_in(rt: &Arc<Runtime>) {
    with_house(|house| {
        house.workers.retain(|other| other.strong_count() > 0);
        house.workers.push(Arc::downgrade(rt));
    });
}

/// A worker's turn to be alone: as long as it lives no other worker of the process claims.
pub(super) struct Turn(());

impl Turn {
    /// Begins one, unless another worker has its turn.
    pub(super) fn begin() -> Option<Self> {
        with_house(|house| {
            let free = !house.taken;
            house.taken = true;
            free.then(|| Self(()))
        })
    }

    /// Waits until no other worker of the process runs or claims anything.
    pub(super) async fn others_are_dry(&self, own: &Runtime) {
        loop {
            let others = others(own);
            let Some(busy) = others.iter().find(|other| !is_still(other)) else {
                return;
            };
            tokio::select! {
                () = busy.until(is_dry_and_still) => {}
                () = busy.reached(Phase::Over) => {}
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        with_house(|house| house.taken = false);
        LEFT.notify_waiters();
    }
}

/// Whether some worker of the process has its turn.
pub(super) fn is_taken() -> bool {
    with_house(|house| house.taken)
}

/// Waits until no worker has its turn.
pub(super) async fn left() {
    loop {
        let left = LEFT.notified();
        tokio::pin!(left);
        left.as_mut().enable();
        if !is_taken() {
            return;
        }
        left.await;
    }
}

/// How long the eldest handler of the process has run.
pub(super) fn eldest(own: &Runtime) -> Option<Duration> {
    let of = |rt: &Runtime| {
        let now = rt.now();
        rt.board().eldest(now)
    };
    let others = others(own);
    let others = others.iter().filter_map(|other| of(other));
    others.chain(of(own)).max()
}

/// Nothing runs and every outcome is settled. A handler that blocks its thread runs too, though
/// its slot was given up.
pub(super) fn is_dry(board: &Board) -> bool {
    board.is_idle() && board.unsettled() == 0 && board.leaked() == 0
}

fn is_dry_and_still(board: &Board) -> bool {
    is_dry(board) && !board.claiming
}

fn is_still(rt: &Runtime) -> bool {
    rt.phase() >= Phase::Over || is_dry_and_still(&rt.board())
}

fn others(own: &Runtime) -> Vec<Arc<Runtime>> {
    with_house(|house| {
        let workers = house.workers.iter().filter_map(Weak::upgrade);
        workers.filter(|it| !std::ptr::eq(&**it, own)).collect()
    })
}

fn with_house<T>(act: impl FnOnce(&mut House) -> T) -> T {
    let mut house: MutexGuard<'_, Option<House>> = HOUSE.locked();
    act(house.get_or_insert_default())
}
