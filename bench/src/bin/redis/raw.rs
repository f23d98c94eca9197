use std::io::{Read, Write};
use std::net::TcpStream;

use crate::server::Server;

/// Microseconds of server CPU for a value of 100 bytes in and out of a list: a command each, RPUSH
/// then LPOP, 100 in one write. Nothing that keeps jobs in lists costs less.
pub(crate) fn list_us(values: u64) -> f64 {
    const PIPELINE: u64 = 100;
    let server = Server::start();
    let stream = TcpStream::connect(("127.0.0.1", server.port())).expect("the server listens");
    stream.set_nodelay(true).expect("a socket");
    let value = "x".repeat(100);
    let push = format!("*3\r\n$5\r\nRPUSH\r\n$1\r\nl\r\n$100\r\n{value}\r\n");
    let pop = "*2\r\n$4\r\nLPOP\r\n$1\r\nl\r\n";
    let before = server.cpu_us();
    for (command, lines) in [(push.as_str(), 1), (pop, 2)] {
        let pipeline = command.repeat(PIPELINE as usize);
        for _ in 0..values / PIPELINE {
            pipelined(&stream, pipeline.as_bytes(), lines * PIPELINE);
        }
    }
    (server.cpu_us() - before) / values as f64
}

/// Writes commands and reads so many lines of answers.
fn pipelined(mut stream: &TcpStream, commands: &[u8], lines: u64) {
    stream.write_all(commands).expect("the server reads");
    let mut buffer = [0; 1 << 16];
    let mut seen = 0;
    while seen < lines {
        let length = stream.read(&mut buffer).expect("the server answers");
        assert!(length > 0, "the server has hung up");
        let ends = buffer[..length].iter().filter(|byte| **byte == b'\n');
        seen += ends.count() as u64;
    }
}
