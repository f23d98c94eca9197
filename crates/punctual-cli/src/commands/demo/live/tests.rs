//! Unit tests of `commands::demo::live`.

use punctual::Namespace;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::connect::{Address, Make, Mode};
use crate::output::{Format, Output};

#[tokio::test]
async fn the_name_that_it_listens_by_is_one_that_it_answers_to() {
    let memory = Address::Memory(Default::default())
        .open(Make::IfMissing, Mode::Hold)
        .await;
    let out = Output {
        format: Format::Json,
    };
    let session = Session::new(memory.expect("an engine"), Namespace::default(), out);
    let listen = Listen {
        address: ([127, 0, 0, 1], 0).into(),
        name: Some("demo.example".to_owned()),
    };
    let live = Live::open(&session, &listen).await.expect("a free port");
    let address = live.serving.address();
    for (host, status) in [("demo.example", "200"), ("another.example", "403")] {
        let mut stream = TcpStream::connect(address).await.expect("it serves");
        let head = format!(
            "GET / HTTP/1.1\r\nhost: {host}:{}\r\nconnection: close\r\n\r\n",
            address.port()
        );
        stream.write_all(head.as_bytes()).await.expect("sent");
        let mut reported = String::new();
        stream
            .read_to_string(&mut reported)
            .await
            .expect("an answer");
        assert!(
            reported.starts_with(&format!("HTTP/1.1 {status}")),
            "{host}: {reported}"
        );
    }
    live.end().await;
}
