//! Old bindings of a delayed exchange: a queue that is still bound to it gets each message at once.
//! AMQP lists no bindings; the management API of the broker does.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use lapin::uri::AMQPUri;
use punctual::time::{seconds, within};
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::host::{Failure, Result};

/// Where the management API usually is.
const PORT: u16 = 15_672;
const ANSWER: Duration = seconds(3);
const ANSWER_BYTES_MAX: u64 = 8 << 20;

#[derive(Debug, Deserialize)]
struct Binding {
    destination: String,
    destination_type: String,
    #[serde(default)]
    routing_key: String,
}

/// Refuses an exchange to which anything but the relay's own queue is bound. Where the API does not
/// answer, nothing is known, and a note says so.
pub(super) async fn check(
    address: &str,
    management: Option<&str>,
    exchange: &str,
    own: &str,
) -> Result<()> {
    let asked = ask(address, management, exchange).await;
    let bindings = match asked {
        Ok(bindings) => bindings,
        Err(why) if management.is_some() => {
            return Err(Failure::of("the management API", why));
        }
        Err(why) => {
            eprintln!(
                "note: the management API does not answer ({why}), so old bindings of {exchange:?} are \
                 not known; name it by --management"
            );
            return Ok(());
        }
    };
    let old = bindings
        .iter()
        .find(|one| one.destination_type != "queue" || one.destination != own);
    match old {
        None => Ok(()),
        Some(Binding {
            destination,
            destination_type,
            routing_key,
        }) => Err(Failure::setting(format!(
            "{destination_type} {destination:?} is still bound to {exchange:?} (key {routing_key:?}) and \
             would get each message at once; unbind it, and bind it to the target exchange"
        ))),
    }
}

async fn ask(
    address: &str,
    management: Option<&str>,
    exchange: &str,
) -> std::result::Result<Vec<Binding>, String> {
    let uri: AMQPUri = address.parse().map_err(|_| "the address is malformed")?;
    let (user, password) = (
        uri.authority.userinfo.username,
        uri.authority.userinfo.password,
    );
    let mut credentials = format!("{user}:{password}");
    let mut place = format!("{}:{PORT}", uri.authority.host);
    if let Some(management) = management {
        let rest = management
            .strip_prefix("http://")
            .ok_or("write http://[USER:PASSWORD@]HOST:PORT; TLS is not spoken")?;
        let rest = rest.split('/').next().unwrap_or_default();
        let (own, host) = rest.rsplit_once('@').unwrap_or(("", rest));
        if !own.is_empty() {
            credentials = own.to_owned();
        }
        place = match host.contains(':') {
            true => host.to_owned(),
            false => format!("{host}:{PORT}"),
        };
    }
    let path = format!(
        "/api/exchanges/{}/{}/bindings/source",
        encoded(&uri.vhost),
        encoded(exchange)
    );
    let credentials = BASE64_STANDARD.encode(credentials);
    // Of HTTP 1.0, so that the answer comes in one piece.
    let request = format!(
        "GET {path} HTTP/1.0\r\nHost: {place}\r\nAuthorization: Basic {credentials}\r\n\r\n"
    );
    let exchange = async {
        let mut stream = TcpStream::connect(&place).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream
            .take(ANSWER_BYTES_MAX)
            .read_to_end(&mut answer)
            .await?;
        std::io::Result::Ok(answer)
    };
    let answer = match within(ANSWER, exchange).await {
        Some(answer) => answer.map_err(|error| error.to_string())?,
        None => return Err("no answer in 3 s".into()),
    };
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("no HTTP came back")?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    match status {
        "200" => serde_json::from_str(body).map_err(|error| error.to_string()),
        // There is no such exchange yet.
        "404" => Ok(Vec::new()),
        "401" | "403" => Err("the user has no tag `management`".into()),
        other => Err(format!("status {other}")),
    }
}

/// A part of a path.
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || b"._-~".contains(&byte) {
            true => encoded.push(char::from(byte)),
            false => encoded += &format!("%{byte:02X}"),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::encoded;

    #[test]
    fn names_are_parts_of_a_path() {
        assert_eq!(encoded("/"), "%2F");
        assert_eq!(encoded("orders.delayed ü"), "orders.delayed%20%C3%BC");
    }
}
