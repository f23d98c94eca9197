//! Prints the OpenAPI description, from which the dashboard's types are generated.

fn main() {
    let json = punctual_gateway::open_api().to_pretty_json();
    println!("{}", json.expect("a description is JSON"));
}
