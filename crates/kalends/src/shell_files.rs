//! `kalends completions` and `kalends man`: files for shells and `man`, generated from the command line.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::ValueEnum;
use clap_complete::Shell;

/// Print a completion script for a shell
///
/// Examples:
///   bash: kalends completions bash > ~/.local/share/bash-completion/completions/kalends
///   zsh:  kalends completions zsh > ~/.zfunc/_kalends, with ~/.zfunc in $fpath before compinit
///   fish: kalends completions fish > ~/.config/fish/completions/kalends.fish
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CompletionsArguments {
    /// Shell
    #[arg(value_enum)]
    shell: ShellName,
}

#[derive(Clone, Copy, ValueEnum)]
enum ShellName {
    Bash,
    Zsh,
    Fish,
}

/// Write man pages, one for each command
///
/// Example:
///   kalends man ~/.local/share/man/man1
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ManArguments {
    /// Directory, which is created if there is none
    directory: PathBuf,
}

pub(crate) fn print_completions(
    arguments: &CompletionsArguments,
    mut command: clap::Command,
) -> anyhow::Result<()> {
    let shell = match arguments.shell {
        ShellName::Bash => Shell::Bash,
        ShellName::Zsh => Shell::Zsh,
        ShellName::Fish => Shell::Fish,
    };
    // Collected first: the generator panics if its output is closed.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "kalends", &mut script);
    Ok(std::io::stdout().write_all(&script)?)
}

pub(crate) fn write_man_pages(
    arguments: &ManArguments,
    command: clap::Command,
) -> anyhow::Result<()> {
    let directory = &arguments.directory;
    let shown = || directory.display().to_string();
    std::fs::create_dir_all(directory).with_context(shown)?;
    clap_mangen::generate_to(command, directory).with_context(shown)
}
