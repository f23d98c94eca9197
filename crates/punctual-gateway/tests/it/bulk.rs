use serde_json::Value;

use crate::support::{PRODUCER, serve};

fn headers(authorization: &str) -> [(&str, &str); 3] {
    [
        ("host", "localhost"),
        ("authorization", authorization),
        ("content-type", "application/x-ndjson"),
    ]
}

#[tokio::test]
async fn every_line_gets_its_verdict_and_a_bad_one_stops_no_other() {
    let under = serve().await;
    let mut body =
        String::from("{\"queue\":\"a\",\"payload\":1}\n\n{\"queue\":\"{x}\"}\nnonsense\r\n");
    for n in 0..2_000 {
        body += &format!("{{\"queue\":\"a\",\"payload\":{n}}}\n");
    }
    body += "{\"queue\":\"a\"}";
    let authorization = format!("Bearer {PRODUCER}");
    let reply = under
        .send_with(&headers(&authorization), "POST", "/v1/bulk", body)
        .await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let lines: Vec<Value> = reply
        .body
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines.len(), 2_005);
    assert_eq!(
        (&lines[0]["line"], &lines[0]["verdict"]),
        (&1.into(), &"created".into())
    );
    assert_eq!(
        (&lines[1]["line"], &lines[1]["error"]["code"]),
        (&3.into(), &"invalid_name".into())
    );
    assert_eq!(
        (&lines[2]["line"], &lines[2]["error"]["code"]),
        (&4.into(), &"invalid_json".into())
    );
    let last = &lines[2_004];
    assert_eq!(
        (&last["accepted"], &last["refused"], &last["done"]),
        (&2_002.into(), &2.into(), &true.into())
    );
    assert_eq!(
        under.get("/v1/queues").await.json()["queues"][0]["ready"],
        2_002
    );
}

#[tokio::test]
async fn a_line_without_end_is_left_out() {
    let under = serve().await;
    let mut body = format!(
        "{{\"queue\":\"a\",\"payload\":\"{}\"}}\n",
        "x".repeat(5 << 20)
    );
    body += "{\"queue\":\"a\"}\n";
    let authorization = format!("Bearer {PRODUCER}");
    let reply = under
        .send_with(&headers(&authorization), "POST", "/v1/bulk", body)
        .await;
    let lines: Vec<Value> = reply
        .body
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines[0]["error"]["code"], "payload_too_large", "{lines:?}");
    assert_eq!(lines[1]["verdict"], "created");
}
