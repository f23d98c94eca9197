//! A file is never in memory whole.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::*;

/// KiB of a line of /proc/PID/status.
fn kib(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status
        .lines()
        .find(|line| line.starts_with(name))
        .expect("a line");
    let number: String = line.chars().filter(char::is_ascii_digit).collect();
    number.parse().expect("a number")
}

/// `UPLOAD_MIB=1024` sends a whole GiB.
#[tokio::test]
async fn a_large_upload_needs_little_memory() {
    let mib: usize = std::env::var("UPLOAD_MIB")
        .ok()
        .and_then(|mib| mib.parse().ok())
        .unwrap_or(256);
    let data = tempfile::tempdir().expect("a directory");
    let web = Process::start(data.path(), &["--role", "web"]).await;
    upload(&web.address, "small.csv", &csv("ann", 10))
        .await
        .expect("an id");
    let before = kib(web.pid(), "VmRSS");
    let chunk = "a row of a large file,1234567890\n".repeat((1 << 20) / 33);
    let (begin, end) = (
        part("name=\"file\"; filename=\"large.csv\"", None, b""),
        form(&[]),
    );
    let begin = &begin[..begin.len() - 2];
    let length = begin.len() + chunk.len() * mib + 2 + end.len();
    let mut tcp = TcpStream::connect(&web.address)
        .await
        .expect("a connection");
    let head = format!(
        "POST /upload HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: {length}\r\n\
         content-type: multipart/form-data; boundary={BOUNDARY}\r\n\r\n",
        web.address
    );
    tcp.write_all(head.as_bytes()).await.expect("it sends");
    tcp.write_all(begin).await.expect("it sends");
    for _ in 0..mib {
        tcp.write_all(chunk.as_bytes()).await.expect("it sends");
    }
    tcp.write_all(b"\r\n").await.expect("it sends");
    tcp.write_all(&end).await.expect("it sends");
    let mut answer = String::new();
    tcp.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    let grown = kib(web.pid(), "VmHWM").saturating_sub(before) / 1024;
    println!("{mib} MiB were sent, and the memory grew by {grown} MiB at most");
    assert!(grown < 64, "{grown} MiB");
}
