//! The server by TLS, and the command as its client.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::shared::Running;
use crate::support::{Punctual, Ran, text};

const TOKEN: &str = "a-token-of-the-test-0123456789";

/// Writes an authority and a certificate of it for that host: `NAME.pem`, `chain.pem`, `key.pem`.
fn certify(punctual: &Punctual, authority: &str, host: &str) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_key = KeyPair::generate().expect("a key");
    let ca = params.self_signed(&ca_key).expect("an authority");
    let issuer = Issuer::from_params(&params, &ca_key);
    let key = KeyPair::generate().expect("a key");
    let leaf = CertificateParams::new(vec![host.to_owned()]).expect("a host");
    let leaf = leaf.signed_by(&key, &issuer).expect("a certificate");
    punctual.write(&format!("{authority}.pem"), ca.pem());
    punctual.write("key.pem", key.serialize_pem());
    punctual.write("chain.pem", leaf.pem());
}

/// The server, and the host and port at which it is.
fn serve(punctual: &Punctual) -> (Running, String) {
    let args = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--tls-cert",
        "chain.pem",
        "--tls-key",
        "key.pem",
        "-o",
        "json",
    ];
    let mut command = punctual.command(&args);
    command.env("PUNCTUAL_TOKEN", TOKEN);
    let mut running = Running::of(command);
    let reported: Value = serde_json::from_str(&running.line()).expect("JSON");
    let url = text(&reported["url"]);
    let place = url.strip_prefix("https://").expect("by TLS").to_owned();
    (running, place)
}

fn list(punctual: &Punctual, engine: &str) -> Ran {
    let args = ["queues", "list", "-o", "json", "--engine", engine];
    let mut command = punctual.command(&args);
    let output = command.env("PUNCTUAL_TOKEN", TOKEN).output();
    output.expect("it runs").into()
}

#[test]
fn calls_by_tls_reach_only_a_server_that_is_vouched_for() {
    let punctual = Punctual::new();
    certify(&punctual, "ours", "127.0.0.1");
    let (server, place) = serve(&punctual);
    list(&punctual, &format!("https://{place}?ca=ours.pem")).exits(0);
    // The authorities of the system do not know ours.
    let refused = list(&punctual, &format!("https://{place}")).exits(5);
    assert!(
        text(&refused.error()["message"]).contains("trusted"),
        "{refused:?}"
    );
    // Without TLS there is no answer, and no token is sent before there is one.
    let plain = list(&punctual, &format!("http://{place}")).exits(5);
    assert!(
        text(&plain.error()["hint"]).contains("https://"),
        "{plain:?}"
    );
    let missing = list(&punctual, &format!("https://{place}?ca=nowhere.pem")).exits(2);
    assert!(missing.stderr.contains("nowhere.pem"), "{missing:?}");
    assert_eq!(server.end(), Some(0));
}

#[test]
fn a_certificate_that_signed_itself_will_do_unless_it_is_an_authority() {
    let punctual = Punctual::new();
    for (is_ca, code) in [
        (IsCa::NoCa, 0),
        (IsCa::ExplicitNoCa, 0),
        // What `openssl req -x509` makes by default.
        (IsCa::Ca(BasicConstraints::Unconstrained), 5),
    ] {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a host");
        params.is_ca = is_ca;
        let key = KeyPair::generate().expect("a key");
        let own = params.self_signed(&key).expect("a certificate");
        punctual.write("key.pem", key.serialize_pem());
        punctual.write("chain.pem", own.pem());
        let (server, place) = serve(&punctual);
        let ran = list(&punctual, &format!("https://{place}?ca=chain.pem")).exits(code);
        if code != 0 {
            let error = ran.error();
            assert!(text(&error["message"]).contains("uses a CA certificate as its own"));
            let hint = text(&error["hint"]);
            assert!(
                hint.contains("-addext basicConstraints=critical,CA:FALSE"),
                "{hint}"
            );
        }
        assert_eq!(server.end(), Some(0));
    }
}

#[test]
fn a_certificate_for_another_host_is_refused() {
    let punctual = Punctual::new();
    certify(&punctual, "ours", "jobs.example");
    let (_server, place) = serve(&punctual);
    list(&punctual, &format!("https://{place}?ca=ours.pem")).exits(5);
}

#[test]
fn another_certificate_is_shown_after_a_hangup_without_a_restart() {
    let punctual = Punctual::new();
    certify(&punctual, "first", "127.0.0.1");
    let (server, place) = serve(&punctual);
    let (first, second) = (
        format!("https://{place}?ca=first.pem"),
        format!("https://{place}?ca=second.pem"),
    );
    list(&punctual, &first).exits(0);
    certify(&punctual, "second", "127.0.0.1");
    list(&punctual, &first).exits(0);
    kill_process(Pid::from_child(&server.child), Signal::HUP).expect("it runs");
    while list(&punctual, &second).code != 0 {}
    list(&punctual, &first).exits(5);
    // What is no good changes nothing.
    punctual.write("chain.pem", "no certificate");
    kill_process(Pid::from_child(&server.child), Signal::HUP).expect("it runs");
    list(&punctual, &second).exits(0);
    assert_eq!(server.end(), Some(0));
}

#[test]
fn a_token_goes_to_another_machine_in_the_clear_only_if_allowed() {
    let punctual = Punctual::new();
    let refused = list(&punctual, "http://jobs.invalid:4180").exits(2);
    let hint = text(&refused.error()["hint"]);
    assert!(
        hint.contains("https://") && hint.contains("plaintext=allow"),
        "{hint}"
    );
    // When allowed it is tried, and there is no such machine.
    list(&punctual, "http://jobs.invalid:4180?plaintext=allow").exits(5);
}

#[test]
fn redis_on_another_machine_is_asked_in_the_clear_only_if_allowed() {
    let punctual = Punctual::new();
    for there in [
        "redis://u:hunter2@jobs.invalid",
        "redis+sentinel://10.0.0.7/main",
        "redis+cluster://127.0.0.1,10.0.0.7",
    ] {
        let refused = list(&punctual, there).exits(2);
        let (message, hint) = (&refused.error()["message"], &refused.error()["hint"]);
        assert!(text(message).contains("in the clear"), "{there}: {message}");
        assert!(text(hint).contains("rediss://") && text(hint).contains("?plaintext=allow"));
        assert!(!refused.stderr.contains("hunter2"), "{refused:?}");
    }
    // When allowed it is tried, and there is no such machine.
    list(&punctual, "redis://u:hunter2@jobs.invalid?plaintext=allow").exits(5);
}

#[test]
fn a_server_is_set_up_by_a_file_and_the_command_line_comes_first() {
    let punctual = Punctual::new();
    certify(&punctual, "ours", "127.0.0.1");
    punctual.write("secret", TOKEN);
    let config = "engine = \"memory:\"\nlisten = \"127.0.0.1:1\"\n[tls]\ncert = \"chain.pem\"\n\
                  key = \"key.pem\"\n[[token]]\nname = \"ops\"\nscopes = [\"admin\"]\nfile = \"secret\"\n";
    punctual.write("punctual.toml", config);
    let args = [
        "serve",
        "--config",
        "punctual.toml",
        "--listen",
        "127.0.0.1:0",
        "-o",
        "json",
    ];
    let mut server = Running::of(punctual.command(&args));
    let reported: Value = serde_json::from_str(&server.line()).expect("JSON");
    assert_eq!(
        (&reported["engine"], &reported["token"]),
        (&"memory:".into(), &Value::Null)
    );
    list(
        &punctual,
        &format!("{}?ca=ours.pem", text(&reported["url"])),
    )
    .exits(0);
    assert_eq!(server.end(), Some(0));
    punctual.write("punctual.toml", format!("{config}scope = [\"read\"]\n"));
    let refused = punctual.run(&args).exits(2);
    assert!(
        refused.stderr.contains("line 10 of punctual.toml"),
        "{refused:?}"
    );
    let open = punctual.write("open.toml", "listen = \"0.0.0.0:0\"");
    let refused = punctual
        .run(&["serve", "--config", open.to_str().expect("text")])
        .exits(2);
    assert!(refused.stderr.contains("needs a token"), "{refused:?}");
}
