//! Killed at any moment, the store keeps what it has answered.
//!
//! The writer is `examples/durable_writer.rs`, in a process of its own, whose log is always being
//! brought into its tables. An answer counts only if it was read before the kill was sent.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kalends_environment::{Entropy as _, SeededEntropy};

/// `make crash-store` asks for more.
const KILLS: u64 = 15;
/// Every so many-th system call, unless `make crash-store` asks for each.
const STRIDE: usize = 17;
const STRACE_CALLS: &str = "pwrite64,fdatasync,fsync,write,ftruncate,unlink";

fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// The example, which `cargo test` builds beside the tests.
fn writer() -> PathBuf {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let writer = deps.parent().unwrap().join("examples/durable_writer");
    assert!(
        writer.is_file(),
        "{} is missing; cargo builds it when no test is named",
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
fn nothing_answered_is_lost_when_the_process_is_killed() {
    let kills = asked("KALENDS_KILLS").unwrap_or(KILLS);
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("kalends.db");
    let entropy = SeededEntropy::new(asked("KALENDS_SEED").unwrap_or(1));
    let mut answered = Vec::new();
    let mut rounds = vec![0];
    for kill in 0..kills {
        let mut random = [0; 2];
        entropy.fill(&mut random).unwrap();
        let wanted = usize::from(u16::from_le_bytes(random) % 400);
        let mut child = Command::new(writer())
            .args(["write".as_ref(), database.as_os_str()])
            .args([(kill * 1_000_000).to_string().as_str(), "1000000", "4"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        answered.extend(lines.by_ref().take(wanted));
        child.kill().unwrap();
        child.wait().unwrap();
        // Of what was said after that only this matters: what may be gone.
        answered.extend(lines.filter(|line| line.starts_with("deleting")));
        // What was there after two rounds is looked for again at the end only.
        verify(&database, &answered[rounds[rounds.len().saturating_sub(2)]..]);
        rounds.push(answered.len());
    }
    verify(&database, &answered);
    assert!(answered.len() > 100 * kills as usize / 2, "{} answers", answered.len());
}

/// Runs a fixed script under strace with an injection; its lines and whether it came to its end.
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
fn nothing_answered_is_lost_whichever_system_call_is_the_last() {
    if !has_strace() {
        return;
    }
    let stride = asked("KALENDS_STRIDE").map_or(STRIDE, |stride| stride as usize);
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
    // The first come before anything is answered.
    for call in [16, 24] {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("kalends.db");
        let (lines, is_done) =
            strace(&database, &format!("inject=fdatasync,fsync:error=EIO:when={call}+"));
        assert!(!is_done && !lines.is_empty(), "{lines:?}");
        verify(&database, &lines);
    }
}
