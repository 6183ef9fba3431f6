//! Acknowledged writes survive a kill at any moment.
//!
//! The writer is `examples/durable_writer.rs` in a separate process, which flushes continuously. A
//! write counts as acknowledged only if the test read its line before it sent the kill.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kalends_environment::{Entropy as _, SeededEntropy};

/// Default number of kills; `make crash-store` sets a larger one.
const KILLS: u64 = 15;
/// Kills at every n-th system call; `make crash-store` sets 1.
const STRIDE: usize = 17;
const STRACE_CALLS: &str = "pwrite64,fdatasync,fsync,write,ftruncate,unlink";

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// The path of the example, which `cargo test` builds with the tests.
fn writer() -> PathBuf {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let writer = deps.parent().unwrap().join("examples/durable_writer");
    assert!(
        writer.is_file(),
        "{} is missing; cargo builds it unless a single test target is selected",
        writer.display()
    );
    writer
}

#[track_caller]
fn verify(database: &Path, lines: &[String]) {
    let mut verifier = Command::new(writer())
        .arg("verify")
        .arg(database)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    verifier.stdin.take().unwrap().write_all(lines.join("\n").as_bytes()).unwrap();
    let output = verifier.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn no_acknowledged_write_is_lost_when_the_process_is_killed() {
    let kills = setting("KALENDS_KILLS").unwrap_or(KILLS);
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("kalends.db");
    let entropy = SeededEntropy::new(setting("KALENDS_SEED").unwrap_or(1));
    let mut acknowledged = Vec::new();
    let mut rounds = vec![0];
    for kill in 0..kills {
        let mut random = [0; 2];
        entropy.fill(&mut random).unwrap();
        let lines_max = usize::from(u16::from_le_bytes(random) % 400);
        let mut child = Command::new(writer())
            .args(["write".as_ref(), database.as_os_str()])
            .args([(kill * 1_000_000).to_string().as_str(), "1000000", "4"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        acknowledged.extend(lines.by_ref().take(lines_max));
        child.kill().unwrap();
        child.wait().unwrap();
        // A deletion announced after the kill may or may not have been committed.
        acknowledged.extend(lines.filter(|line| line.starts_with("deleting")));
        // Each round verifies the last two; the end verifies all.
        verify(&database, &acknowledged[rounds[rounds.len().saturating_sub(2)]..]);
        rounds.push(acknowledged.len());
    }
    verify(&database, &acknowledged);
    assert!(acknowledged.len() > 100 * kills as usize / 2, "{} lines", acknowledged.len());
}

/// Runs the writer under strace with a fault injection. Returns its lines and whether it succeeded.
fn strace(database: &Path, injection: &str) -> (Vec<String>, bool) {
    let output = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-e"])
        .arg(format!("trace={STRACE_CALLS}"))
        .args(["-e", injection])
        .arg(writer())
        .args(["write".as_ref(), database.as_os_str()])
        .args(["0", "9", "1"])
        .output()
        .unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    (lines.lines().map(str::to_owned).collect(), output.status.success())
}

fn has_strace() -> bool {
    let has = Command::new("strace").arg("-V").output().is_ok();
    if !has {
        println!("SKIPPED: strace is not installed");
    }
    has
}

#[test]
fn no_acknowledged_write_is_lost_whichever_system_call_is_the_last() {
    if !has_strace() {
        return;
    }
    let stride = setting("KALENDS_STRIDE").map_or(STRIDE, |stride| stride as usize);
    for call in (1..).step_by(stride) {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("kalends.db");
        let injection = format!("inject={STRACE_CALLS}:signal=SIGKILL:when={call}");
        let (lines, is_done) = strace(&database, &injection);
        verify(&database, &lines);
        if is_done {
            assert!(call > 100, "only {call} calls");
            println!("{call} system calls, every {stride}.");
            break;
        }
    }
}

#[test]
fn a_failed_sync_stops_the_writer_and_loses_nothing() {
    if !has_strace() {
        return;
    }
    // Earlier syncs, such as those of the migrations, precede the first acknowledged write.
    for call in [26, 30] {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("kalends.db");
        let (lines, is_done) =
            strace(&database, &format!("inject=fdatasync,fsync:error=EIO:when={call}+"));
        assert!(!is_done && !lines.is_empty(), "{lines:?}");
        verify(&database, &lines);
    }
}
