//! Unit tests of `disk::fail_stop`.

use super::*;
use crate::testing::{Fault, ForgetfulDisk};

#[test]
fn what_failed_to_sync_is_never_synced_again_and_a_new_file_is() {
    let disk = ForgetfulDisk::default();
    let fail_stop = FailStop::over(Arc::new(disk.clone()));
    let file = fail_stop.create("file").unwrap();
    file.sync().unwrap();
    disk.at_operation(disk.operations(), Fault::Fails);
    file.sync().unwrap_err();
    let before = disk.operations();
    file.sync().unwrap_err();
    assert_eq!(disk.operations(), before, "the disk is not asked again");
    fail_stop.create("another").unwrap().sync().unwrap();
}

#[test]
fn names_that_failed_to_sync_are_never_synced_again() {
    let disk = ForgetfulDisk::default();
    let fail_stop = FailStop::over(Arc::new(disk.clone()));
    fail_stop.sync_names().unwrap();
    disk.at_operation(disk.operations(), Fault::Fails);
    fail_stop.sync_names().unwrap_err();
    fail_stop.sync_names().unwrap_err();
}
