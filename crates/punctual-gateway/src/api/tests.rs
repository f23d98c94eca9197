//! Unit tests of `api`.

use std::collections::BTreeSet;

use punctual::NewJob;
use punctual_contract::fields::{HEADERS, KEPT, PARTS, SENT};
use serde_json::{Value, json};

use super::open_api;
use crate::job_json::JobJson;

/// Every route of `docs/http-api.md`, but those that are for ourselves or for browsers.
const ROUTES: [(&str, &str); 71] = [
    ("delete", "/v1/jobs/by-unique"),
    ("delete", "/v1/jobs/{id}"),
    ("delete", "/v1/limits/{name}"),
    ("delete", "/v1/queues/{queue}/limits"),
    ("delete", "/v1/schedules/{name}"),
    ("delete", "/v1/subscriptions/{name}"),
    ("get", "/healthz"),
    ("get", "/metrics"),
    ("get", "/readyz"),
    ("get", "/v1/audit"),
    ("get", "/v1/dead-groups"),
    ("get", "/v1/events"),
    ("get", "/v1/flows"),
    ("get", "/v1/flows/{name}"),
    ("get", "/v1/flows/{name}/graph"),
    ("get", "/v1/flows/{name}/recount"),
    ("get", "/v1/flows/{name}/steps"),
    ("get", "/v1/info"),
    ("get", "/v1/jobs"),
    ("get", "/v1/jobs/by-unique"),
    ("get", "/v1/jobs/{id}"),
    ("get", "/v1/kinds"),
    ("get", "/v1/limits"),
    ("get", "/v1/limits/{name}"),
    ("get", "/v1/locks"),
    ("get", "/v1/queues"),
    ("get", "/v1/queues/settings"),
    ("get", "/v1/queues/{queue}/blocks"),
    ("get", "/v1/queues/{queue}/limits"),
    ("get", "/v1/queues/{queue}/shares"),
    ("get", "/v1/relays"),
    ("get", "/v1/schedules"),
    ("get", "/v1/schedules/{name}"),
    ("get", "/v1/stats"),
    ("get", "/v1/subscriptions"),
    ("patch", "/v1/jobs/by-unique"),
    ("patch", "/v1/jobs/{id}"),
    ("post", "/v1/bulk"),
    ("post", "/v1/claims"),
    ("post", "/v1/clears"),
    ("post", "/v1/edits"),
    ("post", "/v1/extensions"),
    ("post", "/v1/flows"),
    ("post", "/v1/flows/{name}/cancel"),
    ("post", "/v1/flows/{name}/retry"),
    ("post", "/v1/flows/{name}/seal"),
    ("post", "/v1/flows/{name}/steps"),
    ("post", "/v1/jobs"),
    ("post", "/v1/limits/{name}/block"),
    ("post", "/v1/locks"),
    ("post", "/v1/locks/{name}/release"),
    ("post", "/v1/publish"),
    ("post", "/v1/publish/match"),
    ("post", "/v1/queues/delete"),
    ("post", "/v1/queues/pause"),
    ("post", "/v1/queues/purge"),
    ("post", "/v1/queues/resume"),
    ("post", "/v1/queues/{queue}/block"),
    ("post", "/v1/schedules/{name}/backfill"),
    ("post", "/v1/schedules/{name}/pause"),
    ("post", "/v1/schedules/{name}/preview"),
    ("post", "/v1/schedules/{name}/resume"),
    ("post", "/v1/schedules/{name}/run"),
    ("post", "/v1/schedules/{name}/skip"),
    ("post", "/v1/settlements"),
    ("post", "/v1/signals"),
    ("put", "/v1/limits/{name}"),
    ("put", "/v1/queues/settings"),
    ("put", "/v1/queues/{queue}/limits"),
    ("put", "/v1/schedules/{name}"),
    ("put", "/v1/subscriptions/{name}"),
];

#[test]
fn description_has_every_route_of_the_page() {
    let json = open_api().to_json().expect("a description");
    let description: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert!(
        description["openapi"]
            .as_str()
            .is_some_and(|version| version.starts_with("3.1"))
    );
    let paths = description["paths"].as_object().expect("paths");
    let described: BTreeSet<(String, String)> = paths
        .iter()
        .flat_map(|(path, item)| {
            let methods = item.as_object().expect("methods").keys();
            methods.map(|method| (method.clone(), path.clone()))
        })
        .collect();
    let reported = ROUTES
        .iter()
        .map(|(method, path)| ((*method).to_owned(), (*path).to_owned()));
    assert_eq!(described, reported.collect());
}

#[test]
fn every_reference_in_the_description_leads_somewhere() {
    let json = open_api().to_json().expect("a description");
    let description: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    for part in json.split("\"$ref\":\"#").skip(1) {
        let pointer = part.split('"').next().expect("an end");
        assert!(
            description.pointer(pointer).is_some(),
            "{pointer} leads nowhere"
        );
    }
}

/// What the description says of a job.
fn job_properties() -> Value {
    let json = open_api().to_json().expect("a description");
    let description: Value = serde_json::from_str(&json).expect("JSON");
    description["components"]["schemas"]["Job"]["properties"].clone()
}

#[test]
fn properties_of_a_job_are_the_fields_of_the_contract() {
    let properties = job_properties();
    let described = properties.as_object().expect("properties").keys();
    let described: BTreeSet<&str> = described.map(String::as_str).collect();
    let sent = SENT.iter().flat_map(|field| field.json);
    let kept = KEPT.iter().copied().flatten();
    let reported = sent.chain(kept).chain(HEADERS).copied();
    assert_eq!(described, reported.collect());
}

#[test]
fn defaults_and_bounds_are_those_of_the_contract() {
    let properties = job_properties();
    for field in SENT {
        let [name] = field.json else { continue };
        let property = &properties[name];
        let default = field
            .default_json
            .map(|json| serde_json::from_str(json).expect(name));
        assert_eq!(
            property.get("default").cloned(),
            default,
            "{name}: {property}"
        );
        let bound = |key: &str| property.get(key).and_then(Value::as_u64);
        assert_eq!(bound("minimum"), field.min, "minimum of {name}");
        assert_eq!(bound("maximum"), field.max, "maximum of {name}");
    }
}

/// What the description says of a property of a schema, through references and choices.
fn property<'a>(description: &'a Value, of: &'a Value, name: &str) -> Option<&'a Value> {
    let of = match of["$ref"].as_str() {
        Some(pointer) => description.pointer(pointer.trim_start_matches('#'))?,
        None => of,
    };
    let choices = ["oneOf", "allOf", "anyOf"].map(|key| &of[key]);
    let choices = choices.into_iter().filter_map(Value::as_array).flatten();
    let mut inner = choices.chain([&of["items"]]).filter(|it| !it.is_null());
    let own = &of["properties"][name];
    match own["$ref"].as_str() {
        Some(pointer) => description.pointer(pointer.trim_start_matches('#')),
        None if !own.is_null() => Some(own),
        None => inner.find_map(|one| property(description, one, name)),
    }
}

/// A job whose field is an object with a key or a job, and this property if there is one.
fn job_with(field: &str, property: Option<(&str, Value)>) -> NewJob {
    let mut object = match field {
        "after" => json!({"job": "0190a2d8-5b1c-7a3e-8f00-000000000001"}),
        _ => json!({"key": "k"}),
    };
    if let Some((name, value)) = property {
        object[name] = value;
    }
    let value = match field {
        "after" => json!([object]),
        _ => object,
    };
    let text = json!({"queue": "mail", "id": "0190a2d8-5b1c-7a3e-8f00-000000000002", field: value});
    let job = JobJson::parse(&text.to_string()).expect(field);
    job.into_new_job(&NewJob::new("mail", "")).expect(field)
}

#[test]
fn defaults_of_properties_are_those_of_the_contract() {
    let json = open_api().to_json().expect("a description");
    let description: Value = serde_json::from_str(&json).expect("JSON");
    let job = &description["components"]["schemas"]["Job"];
    for part in PARTS {
        let name = format!("{}.{}", part.field, part.json);
        let default: Value = serde_json::from_str(part.default_json).expect(&name);
        let field = &job["properties"][part.field];
        let described = property(&description, field, part.json).expect(&name);
        assert_eq!(described["default"], default, "{name}: {described}");
        let stated = job_with(part.field, Some((part.json, default)));
        assert_eq!(stated, job_with(part.field, None), "{name}");
    }
}

#[test]
fn a_name_is_described_as_it_is_checked() {
    let json = open_api().to_json().expect("a description");
    let description: Value = serde_json::from_str(&json).expect("JSON");
    let pattern = description["components"]["schemas"]["Name"]["pattern"].as_str();
    let inside = pattern.and_then(|it| it.strip_prefix("^[")?.strip_suffix("]{1,128}$"));
    let ranges = inside
        .expect("a class of characters")
        .replace("A-Za-z0-9", "");
    for c in (0_u8..128).map(char::from) {
        let described = c.is_ascii_alphanumeric() || ranges.contains(c);
        let checked = punctual::job::check_name("queue", &format!("a{c}")).is_ok();
        assert_eq!(described, checked, "{c:?}");
    }
}

#[test]
fn each_operation_has_an_id_of_its_own() {
    let json = open_api().to_json().expect("a description");
    let description: Value = serde_json::from_str(&json).expect("JSON");
    let paths = description["paths"].as_object().expect("paths").values();
    let operations = paths.flat_map(|item| item.as_object().expect("methods").values());
    let ids: Vec<&str> = operations
        .map(|operation| operation["operationId"].as_str().expect("an id"))
        .collect();
    let unlike: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(unlike.len(), ids.len(), "{ids:?}");
}

#[test]
fn the_dashboard_has_the_present_description() {
    let json = open_api().to_pretty_json().expect("a description");
    let there = include_str!("../../../../dashboard/openapi.json");
    assert!(there.trim_end() == json, "run `just contract`");
}
