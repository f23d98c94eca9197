//! Which errors of a database a person has to mend.

use sqlx::mysql::MySqlDatabaseError;

use crate::host::Failure;

/// An error after the start: whatever it is, the relay tries again.
pub(super) fn failed(error: sqlx::Error) -> Failure {
    Failure::of(
        "the outbox (has the database its tables? `punctual outbox ddl`)",
        error,
    )
}

/// An error of the start: of a wrong setting it says which one.
pub(super) fn at_start(error: sqlx::Error) -> Failure {
    let what = match &error {
        sqlx::Error::Configuration(_) => Some("the address of the database is malformed"),
        sqlx::Error::Database(found) => {
            let number = found.try_downcast_ref::<MySqlDatabaseError>();
            match (number, found.code()) {
                (Some(found), _) => mysql(found.number()),
                (None, Some(code)) if code.len() == 5 => postgres(&code),
                (None, Some(code)) => sqlite(&code, found.message()),
                (None, None) => None,
            }
        }
        _ => None,
    };
    match what {
        Some(what) => Failure::setting(format!("{what}: {error}")),
        None => Failure::of("the database does not answer; is it running?", error),
    }
}

const LOGIN: &str = "the database refuses the user or the password; check both in the address";
const DATABASE: &str = "the server has no such database; check the address";
const TABLE: &str =
    "the tables of the outbox lack, or are others; `punctual outbox ddl` prints them";
const RIGHT: &str = "the user may not use the tables; it needs SELECT, UPDATE and DELETE on punctual_outbox, INSERT \
     on punctual_outbox_refused";
const READ_ONLY: &str = "the database can only be read; is it a replica?";

fn postgres(code: &str) -> Option<&'static str> {
    Some(match code {
        "28P01" | "28000" => LOGIN,
        "3D000" => DATABASE,
        "42P01" | "42703" | "42883" | "42804" | "3F000" => TABLE,
        "42501" => RIGHT,
        "25006" => READ_ONLY,
        _ => return None,
    })
}

fn mysql(number: u16) -> Option<&'static str> {
    Some(match number {
        1045 | 1698 | 1251 => LOGIN,
        1049 | 1046 => DATABASE,
        1146 | 1054 => TABLE,
        1044 | 1142 | 1143 => RIGHT,
        1290 | 1792 | 1836 => READ_ONLY,
        _ => return None,
    })
}

/// Extended codes of SQLite have the plain one in their first byte.
fn sqlite(code: &str, message: &str) -> Option<&'static str> {
    Some(match code.parse::<u32>().ok()? & 0xff {
        14 => "the file of the database cannot be opened; check the path and its rights",
        26 => "the file is no database of SQLite",
        8 => READ_ONLY,
        1 if message.contains("no such") || message.contains("has no column") => TABLE,
        _ => return None,
    })
}
