//! Unit tests of `commands::serve::config`.

use punctual::time::seconds;

use super::*;

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/punctual.toml");

fn refused(text: &str) -> (usize, String) {
    Config::parse(text).expect_err(text)
}

#[test]
fn the_sample_is_read_and_has_every_setting() {
    let config = Config::read(Path::new(SAMPLE)).expect("the sample");
    let here = std::net::SocketAddr::from(([127, 0, 0, 1], 4180));
    assert_eq!(config.listen(), Some(here.into()));
    assert_eq!(config.trusted_proxies().len(), 2);
    assert_eq!(config.drain(), Some(seconds(25)));
    let mut limits = config.limits();
    assert_eq!(limits.connections_per_address.take(), Some(8_192));
    assert_eq!(limits, GatewayLimits::default());
    let (cert, _) = config.tls_files().expect("TLS");
    assert_eq!(cert, Path::new("/etc/punctual/tls/chain.pem"));
    assert!(config.engine.is_some() && config.audit_file().is_some() && !config.hosts.is_empty());
    let sources = |entry: &TokenEntry| {
        (
            entry.sha256.is_some(),
            entry.file.is_some(),
            entry.env.is_some(),
        )
    };
    let shown: Vec<_> = config.tokens.iter().map(sources).collect();
    for source in [
        (true, false, false),
        (false, true, false),
        (false, false, true),
    ] {
        assert!(shown.contains(&source), "{shown:?}");
    }
    let hashed = config.tokens.iter().find(|entry| entry.sha256.is_some());
    hashed.expect("one").token(&config.dir).expect("a token");
}

#[test]
fn where_to_listen_may_be_a_name_as_on_the_command_line() {
    let listens = |text: &str| {
        let config = Config::parse(&format!("listen = \"{text}\""));
        config.map(|config| config.listen().expect("it is said"))
    };
    let Listen { address, name } = listens("localhost:4180").expect("a name");
    assert_eq!(address.to_string(), "127.0.0.1:4180");
    assert_eq!(name.as_deref(), Some("localhost"));
    assert_eq!(listens("[::1]:0").expect("an address").name, None);
    for wrong in [
        "4180",
        "127.0.0.1",
        ":4180",
        "localhost:99999",
        "http://localhost:4180",
    ] {
        let (line, message) = listens(wrong).expect_err(wrong);
        assert_eq!(line, 1);
        assert!(
            message.contains("127.0.0.1:4180") && message.contains(wrong),
            "{message}"
        );
    }
    // No name server knows it, nor ever will (RFC 6761).
    let (_, message) = listens("unknown.invalid:4180").expect_err("no such name");
    assert!(message.contains("unknown.invalid:4180"), "{message}");
}

#[test]
fn unknown_settings_are_refused_with_their_line() {
    let (line, message) = refused("listen = \"127.0.0.1:1\"\nlisen = \"127.0.0.1:1\"\n");
    assert_eq!(line, 2);
    assert!(message.contains("lisen"), "{message}");
    assert_eq!(refused("[limits]\nconnections = 5\n\nhaed = \"1s\"\n").0, 4);
    assert_eq!(refused("drain = \"25 seconds\"").0, 1);
    assert_eq!(refused("\n\nlisten = [").0, 3);
    let (line, message) = refused("hosts = []\ntrusted_proxies = [\"10.0.0.0/33\"]");
    assert_eq!(line, 2);
    assert!(
        message.contains("\"10.0.0.0/33\": not an address"),
        "{message}"
    );
}

#[test]
fn a_token_has_one_source_and_never_stands_in_the_file() {
    let token = |lines: &str| {
        let text = format!("[[token]]\nname = \"ops\"\nscopes = [\"admin\"]\n{lines}");
        Config::parse(&text).map_err(|(_, message)| message)
    };
    assert!(token("token = \"0123456789abcdef\"").is_err());
    for lines in [
        "",
        "sha256 = \"00\"",
        "env = \"NO_SUCH_VARIABLE_IS_SET\"",
        "file = \"no-such-file\"",
        "env = \"A\"\nfile = \"b\"",
    ] {
        let config = token(lines).expect("it can be read");
        assert!(config.tokens().is_err(), "{lines}");
    }
    let hash = "a".repeat(64);
    let config = token(&format!("sha256 = \"{hash}\"")).expect("it can be read");
    assert_eq!(
        format!("{:?}", config.tokens().expect("a token")),
        "[Token(ops, default, read,enqueue,work,admin)]"
    );
}
