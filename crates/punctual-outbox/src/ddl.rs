//! The tables.

/// A kind of SQL database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// PostgreSQL 13 or later.
    Postgres,
    /// MySQL 8 and MariaDB 10.6, or later.
    Mysql,
    /// SQLite 3.35 or later.
    Sqlite,
}

/// The statements that make the tables of the outbox, for a migration.
///
/// ```
/// use punctual_outbox::{Dialect, ddl};
///
/// assert!(ddl(Dialect::Sqlite).contains("CREATE TABLE punctual_outbox ("));
/// ```
pub const fn ddl(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Postgres => include_str!("../ddl/postgres.sql"),
        Dialect::Mysql => include_str!("../ddl/mysql.sql"),
        Dialect::Sqlite => include_str!("../ddl/sqlite.sql"),
    }
}

/// The trigger by which PostgreSQL notifies a relay with `--notify` of new rows, for a migration.
pub const NOTIFY: &str = include_str!("../ddl/postgres-notify.sql");
