//! Every field of every body, in a form that it does not take: by what the OpenAPI document says.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::support::{Under, serve};

/// A field within a body, from the outside in.
#[derive(Debug, Clone)]
enum Part {
    Field(String),
    First,
}

/// Where a field is, and whether it is an object.
struct Place {
    parts: Vec<Part>,
    is_object: bool,
}

impl Place {
    /// The body that has nothing but this value in that place.
    fn body(&self, value: Value) -> Value {
        let parts = self.parts.iter().rev();
        parts.fold(value, |value, part| match part {
            Part::Field(name) => Value::Object(Map::from_iter([(name.clone(), value)])),
            Part::First => json!([value]),
        })
    }

    /// As errors write it.
    fn name(&self) -> String {
        let written = self.parts.iter().map(|part| match part {
            Part::Field(name) => format!(".{name}"),
            Part::First => "[0]".into(),
        });
        let written: String = written.collect();
        written.trim_start_matches('.').to_owned()
    }
}

/// Names of schemas whose places are known.
type Seen = BTreeSet<String>;

/// Adds the places of a schema and of all within it, each named schema once.
fn places(of: &Value, schemas: &Value, parts: &[Part], seen: &mut Seen, found: &mut Vec<Place>) {
    if let Some(name) = of["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap_or_default();
        if seen.insert(name.to_owned()) {
            places(&schemas[name], schemas, parts, seen, found);
        }
        return;
    }
    for kind in ["oneOf", "anyOf", "allOf"] {
        for form in of[kind].as_array().into_iter().flatten() {
            places(form, schemas, parts, seen, found);
        }
    }
    let within = |part| [parts, &[part]].concat();
    let fields = of["properties"].as_object();
    if fields.is_some() || of["type"] == "object" {
        found.push(Place {
            parts: parts.to_vec(),
            is_object: fields.is_some(),
        });
    } else if !of["type"].is_null() {
        found.push(Place {
            parts: parts.to_vec(),
            is_object: false,
        });
    }
    for (name, field) in fields.into_iter().flatten() {
        let within = within(Part::Field(name.clone()));
        places(field, schemas, &within, seen, found);
    }
    if of["items"].is_object() {
        places(&of["items"], schemas, &within(Part::First), seen, found);
    }
}

/// Every route that takes JSON, with the places of its body; named schemas once for each, or once
/// for all.
async fn routes(under: &Under, once: bool) -> Vec<(String, String, Vec<Place>)> {
    let document = under.get("/openapi.json").await.json();
    let schemas = &document["components"]["schemas"];
    let (mut routes, mut seen) = (Vec::new(), Seen::new());
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let body = &operation["requestBody"]["content"]["application/json"]["schema"];
            if body.is_null() {
                continue;
            }
            if !once {
                seen.clear();
            }
            let mut found = Vec::new();
            places(body, schemas, &[], &mut seen, &mut found);
            let path = path
                .replace("{id}", "01994f2e-8a51-7c3e-8000-3f0f4c1d2b7a")
                .replace(['{', '}'], "")
                .replace("by-unique", "by-unique?queue=mail&key=k");
            routes.push((method.to_uppercase(), path, found));
        }
    }
    assert!(routes.len() > 20, "{} routes", routes.len());
    routes
}

#[tokio::test]
async fn an_array_in_the_place_of_an_object_is_refused() {
    let under = serve().await;
    let mut seen = 0;
    for (method, path, places) in routes(&under, false).await {
        for place in places.iter().filter(|place| place.is_object) {
            // Several jobs are an array.
            if place.parts.is_empty() && path == "/v1/jobs" {
                continue;
            }
            let name = match place.name() {
                name if name.is_empty() => "the input".into(),
                name => name,
            };
            for array in [json!([]), json!([null]), json!(["a", "b"])] {
                let body = place.body(array).to_string();
                let reply = under.send(&method, &path, body.clone()).await;
                assert_eq!(reply.status, 422, "{method} {path} {body}: {reply:?}");
                let error = &reply.json()["error"];
                let message = error["message"].as_str().unwrap_or_default();
                let is = format!("{name} is an array");
                assert!(message.starts_with(&is), "{method} {path} {body}: {error}");
                assert!(error["hint"].is_string(), "{method} {path} {body}: {error}");
                seen += 1;
            }
        }
    }
    assert!(seen > 100, "{seen} arrays");
}

#[tokio::test]
async fn a_wrong_form_is_refused_with_what_the_field_takes() {
    let under = serve().await;
    let mut without = Vec::new();
    for (method, path, places) in routes(&under, true).await {
        for place in &places {
            for wrong in [json!(null), json!(true), json!(1.5), json!("\u{7}")] {
                let body = place.body(wrong).to_string();
                let reply = under.send(&method, &path, body.clone()).await;
                if reply.status != 422 {
                    continue;
                }
                let error = &reply.json()["error"];
                if !error["hint"].is_string() {
                    without.push(format!("{method} {path} {body}: {}", error["message"]));
                }
            }
        }
    }
    assert!(without.is_empty(), "{}", without.join("\n"));
}
