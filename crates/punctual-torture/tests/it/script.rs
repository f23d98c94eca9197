//! Tests of `scripts/torture`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// `scripts/torture` in a tree of its own, where cargo builds nothing and the program only says how
/// it was called.
struct Script {
    tree: TempDir,
    ci: &'static str,
}

/// What came of it: whether it succeeded, all that was said, and each call of the program.
struct Came {
    succeeded: bool,
    said: String,
    calls: Vec<String>,
}

impl Script {
    fn new() -> Self {
        let tree = tempfile::tempdir().expect("a directory");
        let script = Self { tree, ci: "" };
        script.write(
            "scripts/torture",
            include_str!("../../../../scripts/torture"),
        );
        script.write(".gitignore", "/target\n/calls\n");
        script.write("target/bin/cargo", "#!/bin/sh\n");
        let program = "#!/bin/sh\necho \"$*\" >>calls\n";
        script.write("target/debug/punctual-torture", program);
        script.git(&["init", "--quiet"]);
        script.git(&["add", "--all"]);
        let who = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
        let commit = ["commit", "--quiet", "--message", "all"];
        script.git(&[&who[..], &commit].concat());
        script
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.tree.path().join(path);
        fs::create_dir_all(path.parent().expect("it is in the tree")).expect("a directory");
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }

    fn git(&self, arguments: &[&str]) {
        let mut git = Command::new("git");
        let git = git.args(["-c", "commit.gpgsign=false"]).args(arguments);
        let git = git.current_dir(self.tree.path());
        // As a hook sets them they name another repository.
        let git = git.env_remove("GIT_DIR").env_remove("GIT_INDEX_FILE");
        let git = git.env_remove("GIT_WORK_TREE");
        assert!(git.status().expect("git is there").success());
    }

    fn run(&self, arguments: &[&str], seconds: Option<&str>) -> Came {
        let tree = self.tree.path();
        let _ = fs::remove_file(tree.join("calls"));
        let path = std::env::var("PATH").expect("a path");
        let bin = tree.join("target/bin");
        let mut script = Command::new(Path::new("scripts/torture"));
        script
            .args(arguments)
            .current_dir(tree)
            .env("PATH", format!("{}:{path}", bin.display()))
            .env("CARGO_TARGET_DIR", "target")
            .env_remove("PUNCTUAL_TORTURE_SECONDS")
            .env("CI", self.ci);
        if let Some(seconds) = seconds {
            script.env("PUNCTUAL_TORTURE_SECONDS", seconds);
        }
        let output = script.output().expect("it starts");
        let said = [output.stdout, output.stderr].concat();
        let calls = fs::read_to_string(tree.join("calls")).unwrap_or_default();
        Came {
            succeeded: output.status.success(),
            said: String::from_utf8_lossy(&said).into_owned(),
            calls: calls.lines().map(str::to_owned).collect(),
        }
    }
}

#[test]
fn a_quick_run_says_how_long_it_took_and_fails_if_that_is_too_long() {
    let script = Script::new();
    let quick = script.run(&["--seed", "3"], None);
    assert!(quick.succeeded, "{}", quick.said);
    assert!(quick.said.contains("Tortured in "), "{}", quick.said);
    assert_eq!(
        quick.calls,
        [
            "run --engine all --sink mariadb --minutes 1.5 --folder target/torture --seed 3",
            "run --engine lossy --minutes 0.4 --folder target/torture-lossy --seed 3",
            "run --engine embedded,embedded-http,redis-always,redis-http,redis-power --limits \
             --minutes 0.3 --folder target/torture-limits --seed 3",
            "run --engine embedded-http,redis-always --relay --rate 5 --minutes 0.4 \
             --folder target/torture-relay --seed 3",
            "run --engine embedded-http,redis-always,redis-power --schedules \
             --minutes 0.3 --folder target/torture-schedules --seed 3",
        ]
    );
    let late = script.run(&[], Some("-1"));
    assert!(!late.succeeded && late.said.contains("that is more than -1 s"));
    let hour = script.run(&["hour"], Some("-1"));
    assert!(hour.succeeded, "{}", hour.said);
    assert!(hour.calls[0].contains("--minutes 43 "), "{:?}", hour.calls);
}

#[test]
fn totals_are_of_what_the_commit_has_and_keep_their_histories_by_its_name() {
    let script = Script::new();
    for arguments in [&["totals", "40", "--seed", "9"][..], &["hour", "totals"]] {
        let totals = script.run(arguments, Some("-1"));
        assert!(totals.succeeded, "{}", totals.said);
        assert!(
            totals
                .said
                .contains("Histories are in target/torture-totals/")
        );
        let [all, lossy, tables] = &totals.calls[..] else {
            panic!("{:?}", totals.calls);
        };
        for run in [all, lossy] {
            assert!(run.contains("--totals crates/punctual-torture/totals.json"));
            assert!(run.contains("--folder target/torture-totals/"), "{run}");
        }
        assert_eq!(tables, "tables");
    }
    script.write("not in the commit", "");
    let refused = script.run(&["totals", "40"], None);
    assert!(!refused.succeeded && refused.calls.is_empty());
    assert!(refused.said.contains("commit what is changed"));
}

#[test]
fn a_run_that_was_only_late_is_repeated_once_in_ci() {
    let mut script = Script::new();
    let runs_of = |script: &Script, exit: &str| {
        let counts = "echo \"$*\" >>calls\n";
        let first =
            format!("[ $(grep -c lossy calls) != 1 ] || ! grep -q lossy <<<\"$*\" || exit {exit}");
        let program = format!("#!/bin/bash\n{counts}{first}\n");
        script.write("target/debug/punctual-torture", &program);
        let came = script.run(&[], None);
        let lossy = came.calls.iter().filter(|call| call.contains("lossy"));
        (
            came.succeeded,
            lossy.count(),
            came.said.contains("REPEATED"),
        )
    };
    assert_eq!(runs_of(&script, "3"), (false, 1, false));
    script.ci = "true";
    assert_eq!(runs_of(&script, "3"), (true, 2, true));
    assert_eq!(runs_of(&script, "1"), (false, 1, false));
}
