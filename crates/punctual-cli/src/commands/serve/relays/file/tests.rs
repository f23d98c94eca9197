//! Unit tests of `file`.

use std::io::Write;

use punctual::Namespace;

use super::read;

fn of(text: &str) -> Result<Vec<String>, String> {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("space");
    match read(file.path(), &Namespace::default()) {
        Ok(relays) => Ok(relays
            .iter()
            .map(|(namespace, relay)| {
                format!("{namespace} {} {} {}", relay.name, relay.kind, relay.queue)
            })
            .collect()),
        Err(failure) => Err(failure.message().to_owned()),
    }
}

const LIST: &str = "
[allow.default]
addresses = [\"127.0.0.1:6379\"]
topics = [\"mail\"]
commands = [\"./read.py\"]

[[relay]]
name = \"mail\"
kind = \"redis-list\"
redis = \"redis://127.0.0.1\"
key = \"mail\"
into = \"mail\"
batch = 10
remember = \"2h\"
";

#[test]
fn a_relay_has_the_options_of_its_command() {
    assert_eq!(of(LIST), Ok(vec!["default mail redis-list mail".into()]));
    let two = format!(
        "{LIST}\n[[relay]]\nname = \"read\"\nkind = \"exec\"\nsource = \"./read.py\"\ninto = \"q\""
    );
    assert_eq!(of(&two).map(|relays| relays.len()), Ok(2));
    assert_eq!(of(""), Ok(vec![]));
}

#[test]
fn each_mistake_names_the_relay_and_the_remedy() {
    let change = |from: &str, to: &str| of(&LIST.replace(from, to)).expect_err(to);
    for (from, to, said) in [
        (
            "127.0.0.1:6379",
            "127.0.0.1:7000",
            "add it to addresses of [allow.default]",
        ),
        (
            "topics = [\"mail\"]",
            "",
            "add it to topics of [allow.default]",
        ),
        (
            "[allow.default]",
            "[allow.shop]",
            "may not reach \"127.0.0.1:6379\"",
        ),
        ("key = \"mail\"", "", "key is missing"),
        (
            "key = \"mail\"",
            "key = \"mail\"\nkee = 1",
            "the key kee is not known",
        ),
        (
            "redis-list",
            "redis-lost",
            "the kind \"redis-lost\" is not known; the kinds are amqp, amqp-delay, amqp-emit, exec, \
             outbox, redis-expiry, redis-list, redis-pubsub, redis-redisson, redis-stream, redis-zset",
        ),
        ("redis-list", "help", "the kind \"help\" is not known"),
        ("batch = 10", "until-idle = true", "until-idle is for"),
        ("batch = 10", "help = true", "the key help is not known"),
        ("batch = 10", "batch = true", "batch: write a value"),
        ("batch = 10", "batch = [1, 2]", "batch: write one value"),
        (
            "batch = 10",
            "end = \"up\"",
            "end: invalid value 'up'; use right or left",
        ),
        ("\"2h\"", "\"30d\"", "remember"),
        ("\"2h\"", "\"soon\"", "remember: invalid value 'soon'"),
        (
            "batch = 10",
            "until_idle = true",
            "until_idle is for a command",
        ),
        ("batch = 10", "batch = 1.5", "batch: write a text"),
        ("batch = 10", "batch = \"x\"", "invalid value 'x'"),
        ("name = \"mail\"", "name = \"a b\"", "queue name has"),
        ("kind = ", "namespace = \"a b\"\nkind = ", "namespace"),
        (
            "redis = \"redis://127.0.0.1\"",
            "redis = { env = \"PUNCTUAL_TEST_UNSET\" }",
            "PUNCTUAL_TEST_UNSET is not set",
        ),
        ("[allow.default]", "[allow.default]\nports = [1]", "line 3"),
        ("into = \"mail\"", "into = \"a b\"", "queue name has"),
    ] {
        let why = change(from, to);
        assert!(why.contains(said), "{to}: {why}");
        assert!(!why.contains("--"), "a file has no options: {to}: {why}");
    }
    let (_, relay) = LIST.split_once("[[").expect("a relay");
    let why = of(&format!("{LIST}[[{relay}")).expect_err("twice");
    assert!(why.contains("has its name"), "{why}");
}

#[test]
fn a_prefix_and_a_pattern_need_a_beginning_on_the_list() {
    let relay = |kind: &str, key: &str, list: &str| {
        let text = LIST.replace("redis-list", kind);
        let text = text.replace("\nkey = \"mail\"", &format!("\n{key}"));
        of(&text.replace("topics = [\"mail\"]", &format!("topics = [{list:?}]")))
    };
    for (kind, key, list, is_allowed) in [
        ("redis-expiry", "prefix = \"mail\"", "mail", false),
        ("redis-expiry", "prefix = \"mail\"", "mail*", true),
        ("redis-pubsub", "channel = \"mail\"", "mail", true),
        ("redis-pubsub", "channel = \"mail*\"", "mail*", true),
        ("redis-pubsub", "channel = \"m?il*\"", "m?il*", false),
        ("redis-pubsub", "channel = \"m?il*\"", "m*", true),
    ] {
        let answer = relay(kind, key, list);
        assert_eq!(answer.is_ok(), is_allowed, "{key} by {list}: {answer:?}");
    }
}

#[test]
fn only_a_password_or_a_secret_makes_a_file_secret() {
    let secret = |option: &str| {
        let text = format!("[[relay]]\nname = \"a\"\nkind = \"exec\"\n{option}");
        let file: super::File = toml::from_str(&text).expect("a file");
        file.has_secrets()
    };
    for option in [
        "redis = \"redis://127.0.0.1:17104\"",
        "redis = \"127.0.0.1\"",
        "redis = \"redis://ann@127.0.0.1/3\"",
        "redis = \"redis://ann:@127.0.0.1/3\"",
        "sql = \"sqlite:shop.db\"",
        "sql = \"postgres://app@db/shop?sslmode=require\"",
        "amqp = { env = \"PUNCTUAL_AMQP\" }",
        "source = \"./read.py --url http://a.example/x:y@z\"",
        "source = \"./read.py --token-file t\"",
        "key = \"password\"",
        "trust_message_id = true",
    ] {
        assert!(!secret(option), "{option}");
    }
    for option in [
        "redis = \"redis://:pw@127.0.0.1\"",
        "redis = \"ann:pw@127.0.0.1:6379\"",
        "amqp = \"amqp://guest:p/w@broker/%2f\"",
        "sql = \"postgres://db/shop?user=app&password=pw\"",
        "source = \"curl 'https://ann:pw@a.example/x'\"",
        "source = \"TOKEN=abc ./read.py\"",
        "source = \"./read.py --password pw\"",
    ] {
        assert!(secret(option), "{option}");
    }
}
