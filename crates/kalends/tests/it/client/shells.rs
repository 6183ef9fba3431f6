//! Completion scripts and man pages.

use std::process::Command;

use super::User;

/// Runs a script in a shell and returns its output. `make tools` installs the shells.
fn shell(program: &str, arguments: &[&str], user: &User, script: &str) -> String {
    let output = Command::new(program)
        .args(arguments)
        .arg("-c")
        .arg(script)
        .env("HOME", user.home())
        .current_dir(user.home())
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}; run make tools"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{program}: {text}{errors}");
    text
}

#[test]
fn bash_loads_the_completions_and_completes_commands() {
    let user = User::new();
    std::fs::write(user.home().join("kalends.bash"), user.ok(&["completions", "bash"])).unwrap();
    shell("bash", &["--norc", "-n"], &user, "true");
    assert_eq!(shell("bash", &["--norc"], &user, "bash -n kalends.bash"), "");
    let registered = shell("bash", &["--norc"], &user, "source kalends.bash; complete -p kalends");
    assert!(
        registered.contains("-F _kalends") && registered.ends_with(" kalends\n"),
        "{registered}"
    );
    let script = "source kalends.bash; COMP_WORDS=(kalends job cre); COMP_CWORD=2; \
        _kalends kalends cre job; echo \"${COMPREPLY[@]}\"";
    assert_eq!(shell("bash", &["--norc"], &user, script), "create\n");
}

#[test]
fn zsh_loads_the_completions() {
    let user = User::new();
    std::fs::create_dir(user.home().join("functions")).unwrap();
    let script = user.ok(&["completions", "zsh"]);
    std::fs::write(user.home().join("functions/_kalends"), script).unwrap();
    assert_eq!(shell("zsh", &["-f"], &user, "zsh -n functions/_kalends"), "");
    let script = "fpath=(~/functions $fpath); autoload -Uz compinit; compinit -u -D; \
        print ${_comps[kalends]}; autoload +X _kalends; print ${+functions[_kalends]}";
    assert_eq!(shell("zsh", &["-f"], &user, script), "_kalends\n1\n");
}

#[test]
fn man_pages_are_written_for_every_command() {
    let user = User::new();
    user.ok(&["man", "man/man1"]);
    let read =
        |name: &str| std::fs::read_to_string(user.home().join("man/man1").join(name)).unwrap();
    assert!(read("kalends.1").contains(".TH kalends 1"), "{}", read("kalends.1"));
    let create = read("kalends-job-create.1");
    assert!(create.contains("never runs at once") && create.contains("on\\-failure"), "{create}");
    assert!(user.home().join("man/man1/kalends-context-use.1").exists());
}
