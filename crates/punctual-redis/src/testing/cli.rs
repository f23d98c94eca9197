//! Sends one command and prints its reply as redis-cli does.

use std::io::{BufReader, Write};
use std::net::TcpStream;

use redis::{Cmd, Parser, RedisResult, Value, cmd};

/// Sends one command to the server at a port of the loopback, over a connection of its own; answers
/// the text that redis-cli prints of its reply, without the line's end.
///
/// Tests do it ten thousand times, and a process of redis-cli takes 8 ms of a core.
pub fn ask(port: u16, words: &[&str]) -> String {
    ask_as(port, None, None, words)
}

/// The same after AUTH and SELECT, where there is a password or a database.
pub(super) fn ask_as(
    port: u16,
    password: Option<&str>,
    database: Option<&str>,
    words: &[&str],
) -> String {
    asked(port, password, database, words).unwrap_or_else(|error| error.to_string())
}

fn asked(
    port: u16,
    password: Option<&str>,
    database: Option<&str>,
    words: &[&str],
) -> RedisResult<String> {
    let mut stream = BufReader::new(TcpStream::connect(("127.0.0.1", port))?);
    let mut parser = Parser::new();
    let mut send = |command: &Cmd| {
        stream.get_mut().write_all(&command.get_packed_command())?;
        parser.parse_value(&mut stream)
    };
    if let Some(password) = password {
        send(cmd("AUTH").arg(password))?;
    }
    if let Some(database) = database {
        send(cmd("SELECT").arg(database))?;
    }
    let mut command = Cmd::new();
    command.arg(words);
    Ok(printed(&send(&command)?).trim_end().to_owned())
}

fn printed(reply: &Value) -> String {
    match reply {
        Value::Nil => String::new(),
        Value::Int(number) => number.to_string(),
        Value::Okay => "OK".into(),
        Value::SimpleString(text) => text.clone(),
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Array(values) => {
            let lines: Vec<String> = values.iter().map(printed).collect();
            lines.join("\n")
        }
        Value::ServerError(error) => match error.details() {
            Some(details) => format!("{} {details}", error.code()),
            None => error.code().into(),
        },
        other => unreachable!("RESP2 has no {other:?}"),
    }
}
