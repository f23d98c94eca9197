//! Rows as they are read, and what of them is no job.

use std::collections::HashMap;

use serde_json::value::RawValue;

use crate::host::{Host, Line, Result};

/// A row with more is refused here: a line of the relay has a bound.
pub(super) const JOB_BYTES_MAX: i64 = 1 << 20;
/// What is kept of the reason of a refusal.
const WHY_BYTES_MAX: usize = 1_000;

/// A row.
#[derive(Debug)]
pub(super) struct Row {
    /// The id, or what stands for it.
    pub(super) name: String,
    /// The job as it was inserted, or why it is none.
    pub(super) job: Result<String, String>,
    /// Whether both columns are text, or could be.
    pub(super) is_text: bool,
}

impl Row {
    /// A row of which the columns were read as bytes; `length` is that of the job, whose bytes are
    /// missing if it is over the bound.
    pub(super) fn new(
        place: i64,
        id: Option<Vec<u8>>,
        length: Option<i64>,
        job: Option<Vec<u8>>,
    ) -> Self {
        let id = id.and_then(|id| String::from_utf8(id).ok());
        let job = job.map(String::from_utf8).transpose();
        let is_text = id.is_some() && job.is_ok();
        let job = match (&id, length, job) {
            (None, _, _) => Err("the id is NULL, or no text; use a UUID".to_owned()),
            (_, None, _) => Err("the job is NULL; use the JSON of a job".to_owned()),
            (_, Some(bytes), _) if bytes > JOB_BYTES_MAX => {
                Err(format!("the job has {bytes} bytes; at most 1 MiB is read"))
            }
            (_, Some(_), Ok(job)) => Ok(job.unwrap_or_default()),
            (_, Some(_), Err(_)) => Err("the job is no text in UTF-8".to_owned()),
        };
        Self {
            // Apart from the ids of other rows, so that an answer is that of one row.
            name: id.unwrap_or_else(|| format!("row {place}")),
            job,
            is_text,
        }
    }

    /// Its line. What is no JSON is refused here: escaped, it might be over the bound of a line.
    fn line(&self) -> Line {
        let job = self.job.as_ref().map_err(Clone::clone);
        let job = job.and_then(|job| match serde_json::from_str::<&RawValue>(job) {
            Ok(_) => Ok(with_id(job, &self.name)),
            Err(error) => Err(format!("the job is no JSON: {error}")),
        });
        let (job, bad) = match job {
            Ok(job) => (job, None),
            Err(why) => ("\"\"".to_owned(), Some(why)),
        };
        Line {
            name: self.name.clone(),
            job,
            bad,
        }
    }
}

/// Hands rows over; answers those that are refused, by name, with a reason that any column takes.
pub(super) async fn hand_over<'a>(
    host: &mut Host,
    rows: impl Iterator<Item = &'a Row>,
) -> Result<HashMap<String, String>> {
    let lines: Vec<Line> = rows.map(Row::line).collect();
    let refused = host.hand_over(&lines).await?;
    Ok(refused
        .into_iter()
        .map(|(name, why)| (name, printable(&why)))
        .collect())
}

/// A reason without control characters, which PostgreSQL has no place for, and of a bounded length.
fn printable(why: &str) -> String {
    let end = why.floor_char_boundary(WHY_BYTES_MAX.min(why.len()));
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    why[..end].chars().map(visible).collect()
}

/// The job with the id of its row; what is no object stays as it is, and is refused by the relay.
fn with_id(job: &str, id: &str) -> String {
    let fields = serde_json::from_str::<std::collections::BTreeMap<String, &RawValue>>(job);
    let raw = serde_json::value::to_raw_value(id);
    match (fields, raw) {
        (Ok(mut fields), Ok(raw)) => {
            fields.insert("id".into(), &raw);
            serde_json::to_string(&fields).unwrap_or_default()
        }
        _ => job.to_owned(),
    }
}
