//! Enqueue a job in your own SQL transaction.
//!
//! The job is a row of the table `punctual_outbox` until the relay (`punctual relay outbox`) stores
//! it in an engine. If the transaction commits, there is one job; if it is rolled back, there is
//! none.
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # async fn order(pool: sqlx::SqlitePool) -> Result<(), Box<dyn std::error::Error>> {
//! use punctual::{Due, NewJob, time::minutes};
//!
//! let mut tx = pool.begin().await?;
//! sqlx::query("INSERT INTO orders (id) VALUES (7)").execute(&mut *tx).await?;
//! let job = NewJob::new("orders", r#"{"order":7}"#).due(Due::After(minutes(30)));
//! punctual_outbox::enqueue(&mut *tx, job).await?;
//! tx.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! A delay counts from the instant at which the relay stores the job; `Due::At` names an instant.
//! The table is yours: [`ddl`] has it, for your migrations.
//!
//! # Where to start
//! - The table for your database: [`ddl()`], with a [`Dialect`].
//! - Enqueue in a transaction of sqlx: `enqueue`, with the feature `postgres`, `mysql` or
//!   `sqlite`.
//! - Any other client of SQL: [`job_json()`] returns the text of the column `job`.
//! - Run the relay: `docs/relay.md`.

mod ddl;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
mod enqueue;
mod job_json;

pub use ddl::{Dialect, NOTIFY, ddl};
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub use enqueue::{OutboxConnection, enqueue};
pub use job_json::job_json;
