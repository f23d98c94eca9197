//! What can be said of RabbitMQ without one.

use crate::support::BINARY;

#[test]
fn a_bad_address_is_an_error_that_shows_no_password() {
    for (address, status) in [
        ("http://x:hunter2@127.0.0.1", 78),
        ("amqp://x:hunter2@127.0.0.1:none/%2f", 78),
        ("amqp://x:hunter2@127.0.0.1:1/%2f", 1),
    ] {
        let ran = std::process::Command::new(BINARY)
            .args(["amqp", "--queue", "q"])
            .env("PUNCTUAL_RELAY_ADDRESS", address)
            .output()
            .expect("it runs");
        let text = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(status), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
        assert!(text.contains("broker"), "{text}");
    }
}
