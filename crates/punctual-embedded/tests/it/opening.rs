//! Goal: a directory that must not be opened is refused with the reason and the remedy, and stays
//! as it is. Method: each wrong directory, byte by byte where it is damage.

/// Who may read what is kept.
mod owners;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use punctual::engine::Durability;
use punctual::{Engine, Error, ErrorKind, JobId, JobState};
use punctual_embedded::{EmbeddedEngine, Options, backup, repair, restore, verify};
use tempfile::TempDir;

use crate::client::{enqueue, state, work};

fn options() -> Options {
    Options::default().reserve_bytes(0).maintenance(false)
}

fn refused(path: &Path) -> Error {
    refused_with(path, options())
}

fn refused_with(path: &Path, options: Options) -> Error {
    EmbeddedEngine::open(path, options)
        .map(drop)
        .expect_err("it must not be opened")
}

fn parent() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

/// A directory with jobs in log and store, closed in good order or as a kill leaves it.
struct Made {
    _parent: TempDir,
    path: PathBuf,
    jobs: Vec<JobId>,
}

impl Made {
    /// Twenty jobs in a log of single commits, and nothing in the store yet.
    async fn in_log() -> Self {
        Self::with(options(), 20).await
    }

    /// Two hundred jobs, most of them in the store.
    async fn in_store() -> Self {
        Self::with(
            options()
                .durability(Durability::Os)
                .checkpoint_bytes(20_000),
            200,
        )
        .await
    }

    async fn with(options: Options, count: usize) -> Self {
        let parent = parent();
        let running = parent.path().join("running");
        let engine = EmbeddedEngine::open(&running, options).expect("it is new");
        let mut jobs = Vec::new();
        for _ in 0..count {
            jobs.push(enqueue(&engine, 300).await.expect("enqueue"));
        }
        work(&engine, 10).await.expect("settle");
        jobs.remove(0);
        engine.info().await.expect("info");
        let path = parent.path().join("data");
        punctual_embedded::backup(&running, &path).expect("a copy as a kill leaves it");
        Self {
            _parent: parent,
            path,
            jobs,
        }
    }

    /// The files of the log, the first one first.
    fn log(&self) -> Vec<PathBuf> {
        let names = fs::read_dir(&self.path).expect("files");
        let names = names.map(|entry| entry.expect("file").path());
        let is_log = |path: &PathBuf| {
            path.file_name()
                .is_some_and(|n| n.to_string_lossy().starts_with("log-"))
        };
        let mut log: Vec<_> = names.filter(is_log).collect();
        log.sort();
        log
    }

    fn flip(&self, file: &Path, offset: usize) {
        let mut bytes = fs::read(file).expect("read");
        bytes[offset] ^= 0x10;
        fs::write(file, bytes).expect("write");
    }

    async fn assert_whole(&self) {
        let engine = EmbeddedEngine::open(&self.path, options()).expect("it is whole");
        for id in &self.jobs {
            assert_eq!(state(&engine, *id).await, Some(JobState::Ready), "{id}");
        }
    }
}

fn has(error: &Error, name: &str, part: &str) -> bool {
    error
        .context()
        .any(|(key, value)| key == name && value.contains(part))
}

#[test]
fn a_missing_directory_is_made_by_default() {
    let parent = parent();
    let path = parent.path().join("data");
    let error = refused_with(&path, options().create(false));
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(has(&error, "directory", "data") && !path.exists());
    EmbeddedEngine::open(&path, options()).expect("it is made");
}

/// As by `punctual lock` on a machine that has no directory yet, from two cron jobs.
#[test]
fn a_missing_directory_is_made_once_by_many_openers() {
    let parent = parent();
    for round in 0..100 {
        let path = parent.path().join(format!("data{round}"));
        let together = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            let open = || {
                together.wait();
                EmbeddedEngine::open(&path, options()).map_err(|error| error.kind())
            };
            let opened: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
            for one in opened {
                let ended = one.join().expect("no panic");
                assert!(
                    matches!(ended, Ok(_) | Err(ErrorKind::DataLocked)),
                    "{ended:?}"
                );
            }
        });
    }
}

#[test]
fn a_directory_whose_parent_is_missing_is_refused() {
    let error = refused(&parent().path().join("no/data"));
    assert!(
        error.message().contains("parent") && has(&error, "directory", "no/data"),
        "{error}"
    );
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let parent = parent();
    fs::write(parent.path().join("file"), "").expect("write");
    let error = refused(&parent.path().join("file/data"));
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

#[test]
fn a_file_is_no_directory() {
    let parent = parent();
    let path = parent.path().join("data");
    fs::write(&path, "text").expect("write");
    let error = refused(&path);
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.message().contains("is a file"), "{error}");
}

#[test]
fn a_directory_of_others_is_refused_and_stays_as_it_is() {
    let parent = parent();
    fs::write(parent.path().join("thesis.tex"), "text").expect("write");
    let error = refused(parent.path());
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(has(&error, "file", "thesis.tex"), "{error}");
    assert_eq!(fs::read_dir(parent.path()).expect("files").count(), 1);
}

/// Names the directory to a process of a user without rights.
const NO_RIGHTS: &str = "PUNCTUAL_TEST_NO_RIGHTS";

#[test]
fn a_directory_that_may_not_be_written_is_refused() {
    if let Ok(path) = std::env::var(NO_RIGHTS) {
        return assert_read_only(Path::new(&path));
    }
    let parent = parent();
    let allow = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("permissions");
    };
    let path = parent.path().join("data");
    fs::create_dir(&path).expect("a directory");
    allow(&path, 0o555);
    if fs::metadata(&path).expect("metadata").uid() != 0 {
        return assert_read_only(&path);
    }
    // Root may write everywhere: another user reads, with a copy of this test that it may read.
    allow(parent.path(), 0o755);
    let copy = parent.path().join("test");
    fs::copy(std::env::current_exe().expect("this test is a file"), &copy).expect("copy");
    allow(&copy, 0o755);
    let ran = Command::new(&copy)
        .args([
            "opening::a_directory_that_may_not_be_written_is_refused",
            "--exact",
        ])
        .env(NO_RIGHTS, &path)
        .uid(65_534)
        .gid(65_534)
        .output()
        .expect("the test can be started again");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
}

fn assert_read_only(path: &Path) {
    let error = refused(path);
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.message().contains("cannot be written"), "{error}");
    assert!(has(&error, "directory", "data"), "{error}");
}

#[test]
fn a_directory_in_use_is_refused_and_its_holder_named() {
    let parent = parent();
    let engine = EmbeddedEngine::open(parent.path(), options()).expect("it is new");
    let error = refused(parent.path());
    assert_eq!(error.kind(), ErrorKind::DataLocked);
    assert!(
        has(&error, "holder", &format!("process {}", std::process::id())),
        "{error}"
    );
    drop(engine);
    EmbeddedEngine::open(parent.path(), options()).expect("it is free again");
}

#[tokio::test]
async fn a_directory_is_free_once_its_engine_is_closed() {
    let parent = parent();
    let engine = EmbeddedEngine::open(parent.path(), options()).expect("it is new");
    let id = enqueue(&engine, 10).await.expect("enqueue");
    engine.close().await.expect("close");
    engine.close().await.expect("closing twice is closing once");
    let error = enqueue(&engine, 10).await.expect_err("it is closed");
    assert_eq!(error.kind(), ErrorKind::EngineUnavailable);
    let again = EmbeddedEngine::open(parent.path(), options()).expect("it is free");
    assert!(again.opened().closed);
    assert_eq!(again.opened().replayed, 2, "the enqueue and the close");
    assert_eq!(state(&again, id).await, Some(JobState::Ready));
}

#[test]
fn a_durability_that_cannot_be_kept_is_refused() {
    let error = refused_with(
        parent().path(),
        options().durability(Durability::Replica(2)),
    );
    assert_eq!(error.kind(), ErrorKind::DurabilityUnavailable);
}

#[tokio::test]
async fn a_newer_format_is_refused_by_name() {
    let made = Made::in_log().await;
    let format = made.path.join("format");
    let text = fs::read_to_string(&format).expect("read");
    fs::write(&format, text.replace("format 1", "format 2")).expect("write");
    let error = refused(&made.path);
    assert_eq!(error.kind(), ErrorKind::DataNewer);
    assert!(has(&error, "format", "2"), "{error}");
    fs::write(&format, text).expect("write");
    made.assert_whole().await;
}

#[tokio::test]
async fn a_damaged_format_file_is_refused_and_repaired() {
    let made = Made::in_log().await;
    let format = made.path.join("format");
    for text in [
        "",
        "punctual",
        "punctual embedded engine\nformat 1\ninstance zz\n",
    ] {
        fs::write(&format, text).expect("write");
        let error = refused(&made.path);
        assert_eq!(error.kind(), ErrorKind::DataDamaged, "{text:?}");
    }
    assert!(repair(&made.path).expect("repair").aside.is_some());
    fs::remove_file(&format).expect("remove");
    let error = refused(&made.path);
    assert_eq!(error.kind(), ErrorKind::DataDamaged, "beside data: {error}");
    assert!(error.message().contains("`punctual repair`"), "{error}");
    assert!(repair(&made.path).expect("repair").format);
    made.assert_whole().await;
}

#[tokio::test]
async fn a_log_that_is_missing_is_refused() {
    let made = Made::in_store().await;
    for file in made.log() {
        fs::remove_file(file).expect("remove");
    }
    let error = refused(&made.path);
    assert_eq!(error.kind(), ErrorKind::DataDamaged);
    assert!(error.message().contains("log"), "{error}");
}

#[tokio::test]
async fn a_store_that_is_missing_is_refused_and_no_empty_one_is_made() {
    let made = Made::in_store().await;
    let base = made.path.join("base");
    fs::rename(&base, made.path.join("gone")).expect("rename");
    let error = refused(&made.path);
    assert_eq!(error.kind(), ErrorKind::DataDamaged);
    assert!(error.message().contains("store is missing"), "{error}");
    assert!(!base.exists(), "nothing was made");
    fs::rename(made.path.join("gone"), &base).expect("rename");
    fs::rename(base.join("current"), base.join("gone")).expect("rename");
    assert_eq!(
        refused(&made.path).kind(),
        ErrorKind::DataDamaged,
        "its pointer is missing"
    );
    fs::rename(base.join("gone"), base.join("current")).expect("rename");
    made.assert_whole().await;
}

#[tokio::test]
async fn a_store_with_a_damaged_pointer_is_refused_and_loses_no_table() {
    let made = Made::in_store().await;
    let base = made.path.join("base");
    let files = fs::read_dir(&base)
        .expect("files")
        .map(|entry| entry.expect("file").path());
    let files: Vec<_> = files.filter(|path| path.is_file()).collect();
    assert!(files.len() >= 2, "{files:?}");
    for file in files {
        let bytes = fs::read(&file).expect("read").len();
        for offset in 0..bytes {
            made.flip(&file, offset);
            let error = refused(&made.path);
            assert_eq!(
                error.kind(),
                ErrorKind::DataDamaged,
                "{} {offset}",
                file.display()
            );
            made.flip(&file, offset);
        }
    }
    made.assert_whole().await;
}

#[tokio::test]
async fn a_table_that_is_missing_is_refused() {
    let made = Made::in_store().await;
    let tables = made.path.join("base/tables");
    let table = fs::read_dir(&tables)
        .expect("tables")
        .next()
        .expect("one")
        .expect("file")
        .path();
    fs::rename(&table, made.path.join("gone")).expect("rename");
    let error = refused(&made.path);
    assert_eq!(error.kind(), ErrorKind::DataDamaged, "{error}");
    fs::rename(made.path.join("gone"), &table).expect("rename");
    made.assert_whole().await;
}

#[tokio::test]
async fn damage_inside_the_log_is_refused_with_its_place_and_repaired() {
    let made = Made::in_log().await;
    let log = made.log().remove(0);
    let original = fs::read(&log).expect("read");
    made.flip(&log, original.len() / 2);
    let error = refused(&made.path);
    assert_eq!(error.kind(), ErrorKind::DataDamaged);
    let name = log
        .file_name()
        .expect("name")
        .to_string_lossy()
        .into_owned();
    assert!(
        has(&error, "file", &name) && has(&error, "offset", ""),
        "{error}"
    );
    assert!(error.message().contains("punctual repair"), "{error}");
    assert_eq!(
        refused(&made.path).kind(),
        ErrorKind::DataDamaged,
        "a read changes nothing"
    );

    let repaired = repair(&made.path).expect("repair");
    let cut = repaired.log.expect("the log was cut");
    assert_eq!(cut.file, name);
    assert!(cut.whole_commits > 3, "{cut:?}");
    let aside = repaired.aside.expect("the original is kept");
    let mut kept = fs::read(aside.join(&name)).expect("read");
    kept[original.len() / 2] ^= 0x10;
    assert_eq!(kept, original);
    let engine = EmbeddedEngine::open(&made.path, options()).expect("it opens again");
    let mut found = Vec::new();
    for id in &made.jobs {
        found.push(state(&engine, *id).await.is_some());
    }
    assert!(
        found.is_sorted_by(|a, b| a >= b),
        "what was before the damage is there: {found:?}"
    );
    assert!(found[0] && !found[found.len() - 1], "{found:?}");
    drop(engine);
    assert_eq!(repair(&made.path).expect("nothing to do").log, None);
}

#[tokio::test]
async fn a_flipped_bit_in_a_table_of_the_store_is_never_served_as_data() {
    let made = Made::in_store().await;
    let tables = fs::read_dir(made.path.join("base/tables")).expect("tables");
    let tables: Vec<_> = tables.map(|entry| entry.expect("file").path()).collect();
    let (mut refused, mut whole) = (0, 0);
    for table in &tables {
        let bytes = fs::read(table).expect("read").len();
        for offset in (0..bytes).step_by(bytes / 30 + 1) {
            made.flip(table, offset);
            match read_all(&made).await {
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::DataDamaged, "{error}");
                    refused += 1;
                }
                Ok(()) => whole += 1,
            }
            made.flip(table, offset);
        }
    }
    println!("{refused} flips refused, {whole} without effect");
    assert!(
        refused > 3 * whole,
        "{refused} refused, {whole} without effect"
    );
}

#[tokio::test]
async fn damage_of_the_store_found_after_opening_is_reported_not_copied() {
    let made = Made::in_store().await;
    verify(&made.path).expect("nothing is damaged yet");
    let table = fs::read_dir(made.path.join("base/tables")).expect("tables");
    let tables = table.map(|entry| entry.expect("file").path());
    let table = tables.max_by_key(|path| fs::metadata(path).expect("file").len());
    let table = table.expect("a table");
    let bytes = fs::read(&table).expect("read").len();
    let mut offset = 0;
    loop {
        offset += bytes / 30;
        assert!(offset < bytes, "some block is read by no opening");
        made.flip(&table, offset);
        let opens = EmbeddedEngine::open(&made.path, options()).is_ok();
        if opens && read_all(&made).await.is_err() {
            break;
        }
        made.flip(&table, offset);
    }
    let (copy, empty) = (
        made.path.with_file_name("copy"),
        made.path.with_file_name("empty"),
    );
    fs::create_dir(&empty).expect("a directory");
    let reported = [
        verify(&made.path).err(),
        repair(&made.path).err(),
        backup(&made.path, &copy).err(),
        restore(&made.path, &empty).err(),
    ];
    for error in reported {
        let error = error.expect("it is reported");
        assert_eq!(error.kind(), ErrorKind::DataDamaged, "{error}");
        assert!(has(&error, "file", &table.display().to_string()), "{error}");
        assert!(!format!("{error:?}").contains("LsmTreeError"), "{error:?}");
    }
    assert!(!copy.exists(), "it would look like a good one");
    assert_eq!(fs::read_dir(&empty).expect("it stays").count(), 0);
}

/// Reads every job; an answer is right or an error.
async fn read_all(made: &Made) -> punctual::Result<()> {
    let engine = EmbeddedEngine::open(&made.path, options())?;
    for id in &made.jobs {
        let target = punctual::engine::Target::Id(*id);
        let got = engine
            .get(&punctual::Namespace::default(), vec![target], false)
            .await?;
        let got = got[0].as_ref().expect("a job is never silently gone");
        assert_eq!(got.job().expect("it is kept whole").payload.len(), 300);
    }
    Ok(())
}
