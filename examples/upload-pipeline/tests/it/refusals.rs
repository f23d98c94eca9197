//! Requests that ask for trouble: each gets a clear error and leaves nothing behind.

use punctual::time::{seconds, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::*;

const FILE: &str = "name=\"file\"; filename=\"a.csv\"";

/// No bytes, no open upload, no record.
async fn nothing_is_left(data: &std::path::Path) {
    until(|| objects(data).is_empty()).await;
    until(|| count(data, "SELECT count(*) FROM uploads") == 0).await;
    assert_eq!(count(data, "SELECT count(*) FROM files"), 0);
    assert_eq!(count(data, "SELECT count(*) FROM punctual_outbox"), 0);
    assert_eq!(count(data, "SELECT bytes FROM totals"), 0);
}

/// A file whose part has a header of that many bytes.
fn headed(bytes: usize) -> Vec<u8> {
    let disposition = format!("{FILE}\r\nx-long: {}", "h".repeat(bytes));
    form(&[part(&disposition, None, &csv("ann", 10))])
}

#[tokio::test]
async fn bad_forms_are_refused_and_leave_nothing() {
    let data = tempfile::tempdir().expect("a directory");
    let web = Process::start(data.path(), &["--file-max", "100000", "--quota", "60000"]).await;
    let file = || part(FILE, None, &csv("ann", 10));
    let named = |name: &str| {
        part(
            &format!("name=\"file\"; filename=\"{name}\""),
            None,
            &csv("ann", 10),
        )
    };
    let mut cut = form(&[part(FILE, None, &csv("ann", 3_000))]);
    cut.truncate(cut.len() - 100);
    let cases = [
        (form(&[]), 400, "no_file"),
        (
            form(&[part("name=\"file\"", None, b"a,b")]),
            400,
            "unexpected_part",
        ),
        (
            form(&[file(), part("name=\"x\"", None, b"1")]),
            400,
            "unexpected_part",
        ),
        (form(&[file(), file()]), 400, "two_files"),
        (form(&[part(FILE, None, b"")]), 400, "empty_file"),
        (form(&[named(&"n".repeat(4_096))]), 400, "name_too_long"),
        (cut, 400, "form_ended"),
        (b"no form at all".to_vec(), 400, "form_ended"),
        (
            form(&[part(FILE, Some("image/png"), b"\x7fELF\x02\x01\x01\0")]),
            415,
            "unsupported_type",
        ),
        (
            form(&[part(FILE, Some("image/jpeg"), &csv("ann", 3))]),
            415,
            "unsupported_type",
        ),
        (
            form(&[part(FILE, None, b"PK\x03\x04\x14\0\0\0")]),
            415,
            "unsupported_type",
        ),
        (
            form(&[part(FILE, None, &vec![b'a'; 200_000])]),
            413,
            "too_large",
        ),
        (form(&[part(FILE, None, &vec![b'a'; 90_000])]), 507, "quota"),
    ];
    for (form, status, code) in cases {
        let shown = String::from_utf8_lossy(&form[..form.len().min(120)]).into_owned();
        let (is, answer) = post(&web.address, &[], form).await.expect("an answer");
        assert_eq!(
            (is, answer["error"]["code"].as_str()),
            (status, Some(code)),
            "{shown} {answer}"
        );
        assert!(
            answer["error"]["message"]
                .as_str()
                .is_some_and(|text| text.len() > 10),
            "{answer}"
        );
    }
    let (status, answer) = ask(
        &web.address,
        "POST",
        "/upload",
        &[("content-type", "text/csv")],
        "a,b",
    )
    .await
    .expect("an answer");
    assert_eq!(
        (status, answer["error"]["code"].as_str()),
        (400, Some("not_a_form"))
    );
    nothing_is_left(data.path()).await;
}

#[tokio::test]
async fn addresses_that_name_nothing_are_refused_in_words() {
    let data = tempfile::tempdir().expect("a directory");
    let web = Process::start(data.path(), &["--role", "web"]).await;
    for (method, path, status, code) in [
        ("GET", "/nothing", 404, "no_such_address"),
        ("PUT", "/upload", 405, "wrong_method"),
    ] {
        let answer = ask(&web.address, method, path, &[], "").await;
        let (is, answer) = answer.expect("an answer");
        assert_eq!(
            (is, answer["error"]["code"].as_str()),
            (status, Some(code)),
            "{path}"
        );
    }
    for id in [
        "x",
        "%00",
        "%ff",
        "0A454BC5-CBB6-4679-AD40-3EA97BD8E67C",
        &"9".repeat(9_000),
    ] {
        let (status, answer) = get(&web.address, &format!("/files/{id}"))
            .await
            .expect("an answer");
        assert_eq!(status, 404, "{id}");
        assert_eq!(answer["error"]["code"], "not_found", "{id}");
    }
    let (status, _) = get(&web.address, "/files/..%2f..%2fetc%2fpasswd")
        .await
        .expect("an answer");
    assert_eq!(status, 404);
}

#[tokio::test]
async fn parts_that_are_no_file_of_a_known_type_are_refused() {
    let data = tempfile::tempdir().expect("a directory");
    let web = Process::start(data.path(), &[]).await;
    let file = || part(FILE, None, &csv("ann", 10));
    let cases = [
        (form(&[part("name=\"x\"", None, b"1")]), 400, "no_file"),
        (headed(300_000), 400, "form_too_large"),
        (vec![b'-'; 300_000], 400, "form_too_large"),
        (
            form(&vec![part("name=\"x\"", None, b""); 5_000]),
            400,
            "form_too_large",
        ),
        (
            form(&[
                part("name=\"x\"", None, b"1"),
                part("name=\"y\"", None, b""),
            ]),
            400,
            "no_file",
        ),
        (
            form(&[part("name=\"x\"", None, &vec![b'x'; 90_000])]),
            400,
            "unexpected_part",
        ),
        (
            form(&[part("name=\"x\"", None, b"1"), file()]),
            400,
            "unexpected_part",
        ),
        (
            form(&[part(
                "name=\"file\"; filename=\"a.txt\"",
                None,
                b"a,b\n1,\xff\xfe",
            )]),
            415,
            "unsupported_type",
        ),
    ];
    for (form, status, code) in cases {
        let (is, answer) = post(&web.address, &[], form).await.expect("an answer");
        assert_eq!(
            (is, answer["error"]["code"].as_str()),
            (status, Some(code)),
            "{answer}"
        );
    }
    nothing_is_left(data.path()).await;
}

#[tokio::test]
async fn names_of_files_name_nothing_in_the_store() {
    let data = tempfile::tempdir().expect("a directory");
    let web = Process::start(data.path(), &[]).await;
    for (name, shown) in [
        ("../../../tmp/a.csv", "a.csv"),
        ("/etc/passwd", "passwd"),
        ("\u{202e}vsc.a", "vsc.a"),
        ("تقرير.csv", "تقرير.csv"),
    ] {
        let id = upload(&web.address, name, &csv(name, 10))
            .await
            .expect("an id");
        assert_eq!(
            until_state(&web.address, &id, "processed").await["name"],
            shown
        );
    }
    // A name in another encoding is no reason to refuse a file.
    for (disposition, shown) in [
        (&b"filename=\"gr\xfcn.csv\""[..], "gr?n.csv"),
        (b"filename*=UTF-8''%e4%b8%ad.csv", "中.csv"),
    ] {
        let mut sent = part("name=\"file\"; ", None, &csv(shown, 10));
        let place = sent.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        let place = place.expect("an end of the head");
        sent.splice(place..place, disposition.iter().copied());
        let (status, answer) = post(&web.address, &[], form(&[sent]))
            .await
            .expect("an answer");
        assert_eq!(status, 202, "{answer}");
        let id = answer["id"].as_str().expect("an id");
        let file = until_state(&web.address, id, "processed").await;
        assert_eq!(file["name"], shown);
    }
    for object in objects(data.path()) {
        let name = object
            .file_name()
            .and_then(|name| name.to_str())
            .expect("a name");
        assert!(name.parse::<uuid::Uuid>().is_ok(), "{name}");
    }
    assert_eq!(objects(data.path()).len(), 6);
}

#[tokio::test]
async fn an_upload_without_the_token_or_from_another_site_is_refused() {
    let data = tempfile::tempdir().expect("a directory");
    let web = Process::start(data.path(), &["--token", "a-secret-token"]).await;
    let file = || form(&[part(FILE, None, &csv("ann", 10))]);
    let here = format!("http://{}", web.address);
    let right = ("authorization", "Bearer a-secret-token");
    for (headers, status, code) in [
        (vec![], 401, "missing_token"),
        (vec![("authorization", "Bearer wrong")], 401, "wrong_token"),
        (
            vec![right, ("origin", "http://evil.example")],
            403,
            "wrong_origin",
        ),
        (vec![right, ("origin", "null")], 403, "wrong_origin"),
    ] {
        let (is, answer) = post(&web.address, &headers, file())
            .await
            .expect("an answer");
        assert_eq!(
            (is, answer["error"]["code"].as_str()),
            (status, Some(code)),
            "{headers:?}"
        );
    }
    nothing_is_left(data.path()).await;
    let (status, answer) = post(&web.address, &[right, ("origin", &here)], file())
        .await
        .expect("an answer");
    assert_eq!(status, 202, "{answer}");
    let id = answer["id"].as_str().expect("an id");
    until_state(&web.address, id, "processed").await;
    let (status, _) = ask(&web.address, "DELETE", &format!("/files/{id}"), &[], "")
        .await
        .expect("an answer");
    assert_eq!(status, 401);
}

#[tokio::test]
async fn options_that_cannot_be_used_are_named_with_the_remedy() {
    let data = tempfile::tempdir().expect("a directory");
    let place = data.path().to_str().expect("a path");
    for (options, says) in [
        (&["--data", "/proc/nothing"][..], "--data names another one"),
        (&["--cache-for", "1ms"], "use a span of 1s or more"),
        (&["--file-max", "18446744073709551615"], "--file-max"),
        (
            &[
                "--data",
                place,
                "--store",
                "s3://a",
                "--file-max",
                "60000000000",
            ],
            "--file-max is at most 52428800000 with --store s3://",
        ),
    ] {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_upload-pipeline"));
        let ended = command.args(options).output().await.expect("it runs");
        let text = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success() && text.contains(says), "{text}");
    }
}

/// Sends the head of a request and a part of its body; answers what comes back.
async fn send_raw(address: &str, length: usize, body: &[u8], closes: bool) -> String {
    let mut tcp = TcpStream::connect(address).await.expect("a connection");
    let head = format!(
        "POST /upload HTTP/1.1\r\nhost: {address}\r\ncontent-length: {length}\r\n\
         content-type: multipart/form-data; boundary={BOUNDARY}\r\n\r\n"
    );
    tcp.write_all(head.as_bytes()).await.expect("it sends");
    tcp.write_all(body).await.expect("it sends");
    if closes {
        tcp.shutdown().await.expect("it closes");
    }
    let mut answer = Vec::new();
    let _ = within(seconds(60), tcp.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn bodies_that_are_slow_or_shorter_than_they_say_are_given_up() {
    let data = tempfile::tempdir().expect("a directory");
    let web = Process::start(data.path(), &["--idle", "300ms"]).await;
    let whole = form(&[part(FILE, None, &csv("ann", 10_000))]);
    let half = &whole[..whole.len() / 2];
    // It says more than it sends, and waits.
    let slow = send_raw(&web.address, whole.len(), half, false).await;
    assert!(
        slow.starts_with("HTTP/1.1 408") && slow.contains("too_slow"),
        "{slow}"
    );
    // It goes away in the middle: no client is there to read an answer.
    send_raw(&web.address, whole.len(), half, true).await;
    // It says less than it sends.
    let less = send_raw(&web.address, half.len(), half, false).await;
    assert!(
        less.starts_with("HTTP/1.1 400") && less.contains("form_ended"),
        "{less}"
    );
    // It says more than it sends, but the form has ended: its last boundary counts.
    let more = send_raw(&web.address, whole.len() + 1_000, &whole, false).await;
    assert!(more.starts_with("HTTP/1.1 202"), "{more}");
    let id = more
        .split("\"id\":\"")
        .nth(1)
        .and_then(|rest| rest.get(..36));
    let id = id.expect("an id");
    until_state(&web.address, id, "processed").await;
    let path = format!("/files/{id}");
    let deleted = ask(&web.address, "DELETE", &path, &[], "").await;
    assert_eq!(deleted.expect("an answer").0, 204);
    until(|| objects(data.path()).is_empty()).await;
    // It says more than a file may have, and sends nothing.
    let huge = send_raw(&web.address, 10 << 30, b"", false).await;
    assert!(
        huge.starts_with("HTTP/1.1 413") && huge.contains("too_large"),
        "{huge}"
    );
    until(|| objects(data.path()).is_empty()).await;
    until(|| count(data.path(), "SELECT count(*) FROM uploads") == 0).await;
    assert_eq!(count(data.path(), "SELECT count(*) FROM files"), 1);
    assert_eq!(count(data.path(), "SELECT bytes FROM totals"), 0);
}
