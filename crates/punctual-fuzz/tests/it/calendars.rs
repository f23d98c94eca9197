//! Mutated cron patterns and names of zones.

use punctual::schedule::{Form, Spec};
use punctual::time::Timestamp;
use punctual_fuzz::fuzz;

/// What is read as a pattern runs at instants that go forward; what is refused says what to do.
#[test]
fn patterns_and_zones_are_read_or_refused() {
    let texts = [
        "30 2 * * *",
        "*/15 9-17 * * MON-FRI",
        "0 9 13 2,6 FRI",
        "0 0 29 2 *",
        "5 4 L-2,15W * 5L",
        "0 9 * * MON#1,SUN",
        "*/10 30 2 1/5 * ?",
        "0 0 12 ? * 6#3 2002-2099",
        "@every 5m",
        "Europe/Berlin",
        "US/Eastern",
        "Pacific/Apia",
        "UTC+3",
    ];
    let seeds = texts.map(|text| text.as_bytes().to_vec()).to_vec();
    let from: Timestamp = "2026-03-28T00:00:00Z".parse().expect("an instant");
    let ran = fuzz("calendars", seeds, 4_000, |input| {
        let Ok(text) = std::str::from_utf8(input) else {
            return;
        };
        let forms = [Form::Cron, Form::CronWithSeconds, Form::Quartz];
        let patterns = forms.map(|form| Spec::builder().pattern(form, text).zone("Europe/Berlin"));
        let zone = [Spec::cron("30 2 * * *").zone(text)];
        for parts in patterns.into_iter().chain(zone) {
            match parts.build() {
                Ok(spec) => {
                    let instants: Vec<Timestamp> = spec.instants(from).take(8).collect();
                    assert!(instants.is_sorted_by(|one, next| from <= *one && one < next));
                }
                Err(error) => assert!(error.message().contains("; "), "{error}"),
            }
        }
    });
    println!("{ran:?}");
}
