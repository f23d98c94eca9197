//! A disk and a store in memory that fail as a test sets, for tests of crashes.
//!
//! ```
//! use punctual_embedded::disk::Disk;
//! use punctual_embedded::testing::{Crash, ForgetfulDisk};
//!
//! let disk = ForgetfulDisk::default();
//! let file = disk.create("a").unwrap();
//! disk.sync_names().unwrap();
//! file.write_at(0, b"kept").unwrap();
//! file.sync().unwrap();
//! file.write_at(4, b" and lost").unwrap();
//! let disk = disk.crash(Crash::PowerCut { keeps: 0 });
//! assert_eq!(disk.read("a").unwrap(), b"kept");
//! ```

mod disk;
mod store;

pub use disk::{Crash, Fault, ForgetfulDisk};
pub use store::MemoryStore;
