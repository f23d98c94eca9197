//! Processes of the pipeline, and a client.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use bytes::Bytes;
use futures_util::StreamExt;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::rt::TokioIo;
use punctual::time::{millis, pause, seconds, within};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio_tungstenite::tungstenite::Message;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A process of the pipeline; it is killed when this is dropped.
pub(crate) struct Process {
    child: Child,
    /// Where it listens; a worker does not.
    pub(crate) address: String,
}

impl Process {
    /// Starts one on that directory, and waits until it says where it is.
    pub(crate) async fn start(data: &Path, args: &[&str]) -> Self {
        Self::start_with(data, args, &[]).await
    }

    pub(crate) async fn start_with(data: &Path, args: &[&str], env: &[(&str, &str)]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_upload-pipeline"))
            .args(["--listen", "127.0.0.1:0", "--lease", "2s", "--data"])
            .arg(data)
            .args(args)
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the pipeline starts");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let first = lines
            .next_line()
            .await
            .expect("its output")
            .expect("a first line");
        let address = first
            .strip_prefix("http://")
            .and_then(|rest| rest.split(' ').next());
        let address = address.unwrap_or_default().to_owned();
        // Its output is read to the end, so that it never waits for a reader.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self { child, address }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// As `kill -9` does.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.expect("it is killed");
    }

    /// Sends a signal by its name.
    pub(crate) async fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        let sent = Command::new("kill").args([name, &pid]).status().await;
        assert!(sent.expect("kill runs").success());
    }
}

/// An answer: its status, and its body as JSON, or as text if it is none.
pub(crate) async fn ask(
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Result<(u16, Value)> {
    let asked = within(seconds(60), async {
        let tcp = TcpStream::connect(address).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(tcp)).await?;
        let connection = tokio::spawn(connection);
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", address);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = sender
            .send_request(request.body(Full::new(body.into()))?)
            .await?;
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await?.to_bytes();
        connection.abort();
        let text = || String::from_utf8_lossy(&body).into_owned();
        let is_none = body.is_empty();
        let json = serde_json::from_slice(&body);
        let answer = json.unwrap_or_else(|_| if is_none { Value::Null } else { text().into() });
        Ok((status, answer))
    });
    asked
        .await
        .unwrap_or_else(|| Err("no answer in 60 s".into()))
}

pub(crate) async fn get(address: &str, path: &str) -> Result<(u16, Value)> {
    ask(address, "GET", path, &[], "").await
}

pub(crate) const BOUNDARY: &str = "boundary-of-the-test";

/// A part of a form.
pub(crate) fn part(disposition: &str, kind: Option<&str>, bytes: &[u8]) -> Vec<u8> {
    let mut part =
        format!("--{BOUNDARY}\r\nContent-Disposition: form-data; {disposition}\r\n").into_bytes();
    if let Some(kind) = kind {
        part.extend(format!("Content-Type: {kind}\r\n").bytes());
    }
    part.extend(b"\r\n");
    part.extend(bytes);
    part.extend(b"\r\n");
    part
}

pub(crate) fn form(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut form = parts.concat();
    form.extend(format!("--{BOUNDARY}--\r\n").bytes());
    form
}

/// Sends a form.
pub(crate) async fn post(
    address: &str,
    headers: &[(&str, &str)],
    form: Vec<u8>,
) -> Result<(u16, Value)> {
    let kind = format!("multipart/form-data; boundary={BOUNDARY}");
    let headers: Vec<_> = [("content-type", kind.as_str())]
        .iter()
        .chain(headers)
        .copied()
        .collect();
    ask(address, "POST", "/upload", &headers, form).await
}

/// Uploads a file; answers its id.
pub(crate) async fn upload(address: &str, name: &str, bytes: &[u8]) -> Result<String> {
    let file = part(&format!("name=\"file\"; filename=\"{name}\""), None, bytes);
    let (status, answer) = post(address, &[], form(&[file])).await?;
    match answer["id"].as_str() {
        Some(id) if status < 300 => Ok(id.to_owned()),
        _ => Err(format!("{status}: {answer}").into()),
    }
}

/// A CSV with a header, and rows that no other name has.
pub(crate) fn csv(name: &str, rows: usize) -> Vec<u8> {
    let rows = (1..=rows).map(|n| format!("{name},{n}\n"));
    format!("name,n\n{}", rows.collect::<String>()).into_bytes()
}

/// Asks until the file is in that state.
pub(crate) async fn until_state(address: &str, id: &str, state: &str) -> Value {
    loop {
        if let Ok((200, view)) = get(address, &format!("/files/{id}")).await
            && view["state"] == state
        {
            return view;
        }
        pause(millis(50)).await;
    }
}

/// Follows a file by a WebSocket until it closes; answers the views that came.
pub(crate) async fn follow(address: &str, id: &str) -> Result<Vec<Value>> {
    let (mut socket, _) =
        tokio_tungstenite::connect_async(format!("ws://{address}/ws?file={id}")).await?;
    let mut views = Vec::new();
    while let Some(message) = socket.next().await {
        match message {
            Ok(Message::Text(text)) => views.push(serde_json::from_str(&text)?),
            Ok(Message::Close(_)) | Err(_) => break,
            Ok(_) => {}
        }
    }
    Ok(views)
}

/// Reads one number from the database of a directory.
pub(crate) fn count(data: &Path, select: &str) -> i64 {
    let database = rusqlite::Connection::open(data.join("files.db")).expect("the database");
    database.busy_timeout(seconds(30)).expect("a timeout");
    database
        .query_row(select, [], |row| row.get(0))
        .expect("a number")
}

/// Objects in the store of a directory.
pub(crate) fn objects(data: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(data.join("objects")).expect("the store");
    files.map(|file| file.expect("a file").path()).collect()
}

/// Waits for a fact; nextest ends a test that waits in vain.
pub(crate) async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        pause(millis(50)).await;
    }
}
