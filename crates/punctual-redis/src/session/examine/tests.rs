//! Unit tests of `examine`.

use super::cpu_of;

#[test]
fn the_cpu_of_a_server_is_its_own_and_that_of_its_forks() {
    let info = "# CPU\r\nused_cpu_sys:0.25\r\nused_cpu_user:1.5\r\nused_cpu_sys_children:0.125\r\n\
                used_cpu_user_children:2.0\r\nused_cpu_sys_main_thread:0.2\r\n";
    assert_eq!(cpu_of(info), Some(3.875));
}

#[test]
fn a_server_that_does_not_say_its_cpu_is_not_guessed() {
    for info in [
        "",
        "used_cpu_sys:0.25",
        "used_cpu_sys:x\r\nused_cpu_user:1\r\n",
    ] {
        assert_eq!(cpu_of(info), None, "{info}");
    }
}
