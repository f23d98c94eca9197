//! `punctual completions`: options and states by the shell alone, names of queues by asking the
//! engine.

use std::io::{self, Write};

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::{Cli, Global};
use crate::failure::Result;

/// Write the completions of a shell to standard output
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual completions bash > /etc/bash_completion.d/punctual
  punctual completions zsh  > \"${fpath[1]}/_punctual\"
  punctual completions fish > ~/.config/fish/completions/punctual.fish

In these three shells queue names are completed too: the shell reads them from the engine
of --engine or PUNCTUAL_ENGINE.")]
pub(crate) struct Args {
    shell: Shell,
}

impl Args {
    pub(crate) fn run(self, _: &Global) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "punctual", &mut script);
        let script = String::from_utf8(script).map_err(io::Error::other)?;
        let script = match self.shell {
            Shell::Bash => script + BASH,
            Shell::Zsh => zsh(&script),
            Shell::Fish => fish(&script),
            _ => script,
        };
        io::stdout().lock().write_all(script.as_bytes())?;
        Ok(())
    }
}

/// Commands whose arguments are queues.
const TAKE_QUEUES: [&[&str]; 8] = [
    &["enqueue"],
    &["work"],
    &["top"],
    &["queues", "list"],
    &["queues", "pause"],
    &["queues", "resume"],
    &["queues", "purge"],
    &["queues", "delete"],
];

/// Bash breaks words at colons, which addresses and names of queues have: the line itself is split.
const BASH: &str = r#"
_punctual_with_queues() {
    _punctual "$@"
    local line="${COMP_LINE:0:COMP_POINT}" words cur prev i are_queues="" place=()
    read -ra words <<< "$line"
    [[ "$line" == *[[:space:]] ]] && words+=("")
    cur="${words[${#words[@]}-1]}"
    prev="${words[${#words[@]}-2]}"
    for ((i = 1; i < ${#words[@]} - 1; i++)); do
        case "${words[i]}" in
            -e|--engine|--namespace) place+=("${words[i]}" "${words[i+1]}"); ((i++)) ;;
        esac
    done
    case "$prev" in
        --queue) are_queues=1 ;;
        -*) ;;
        *) case " ${words[*]:1:${#words[@]}-2} " in
            *" enqueue "|*" work "*|*" top "*) are_queues=1 ;;
            *" queues list "*|*" queues pause "*|*" queues resume "*) are_queues=1 ;;
            *" queues purge "|*" queues delete ") are_queues=1 ;;
        esac ;;
    esac
    [[ -z "$are_queues" || "$cur" == -* ]] && return
    COMPREPLY=($(compgen -W "$(punctual queues list --names -o table "${place[@]}" 2>/dev/null)" -- "$cur"))
    if [[ "$cur" == *:* && "$COMP_WORDBREAKS" == *:* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"${cur%"${cur##*:}"}"}")
    fi
}
complete -F _punctual_with_queues -o bashdefault -o default punctual
"#;

const ZSH: &str = r#"
_punctual_queues() {
    local -a queues place
    local i
    for ((i = 2; i < CURRENT; i++)); do
        case $words[i] in
            -e|--engine|--namespace) place+=($words[i] $words[i+1]) ;;
        esac
    done
    queues=(${(f)"$(punctual queues list --names -o table $place 2>/dev/null)"})
    compadd -a queues
}
"#;

/// Has zsh ask for the queues where an option or argument is one.
fn zsh(script: &str) -> String {
    let mut whole = String::with_capacity(script.len() + ZSH.len());
    for line in script.lines() {
        if line.starts_with("if [ \"$funcstack[1]\"") {
            whole.push_str(ZSH);
            whole.push('\n');
        }
        let is_queue = line.contains("]:QUEUE:_default'")
            || [":queue -- ", ":queues -- "]
                .iter()
                .any(|name| line.contains(name));
        whole.push_str(&match is_queue {
            true => line.replace(":_default'", ":_punctual_queues'"),
            false => line.to_owned(),
        });
        whole.push('\n');
    }
    whole
}

const FISH: &str = r#"
function __punctual_queues
    set -l words (commandline -opc)
    set -l place
    for i in (seq (count $words))
        if contains -- $words[$i] -e --engine --namespace
            set place $place $words[$i] $words[(math $i + 1)]
        end
    end
    punctual queues list --names -o table $place 2>/dev/null
end
"#;

/// Has fish ask for the queues where an option or argument is one.
fn fish(script: &str) -> String {
    let asks = "-f -a '(__punctual_queues)'";
    let mut whole = FISH.to_owned();
    for line in script.lines() {
        whole.push_str(line);
        if line.contains(" -l queue ") {
            whole.push_str(&format!(" {asks}"));
        }
        whole.push('\n');
    }
    for command in TAKE_QUEUES {
        let is_it = match command {
            [one] => format!("__fish_punctual_using_subcommand {one}"),
            [one, two] => format!(
                "__fish_punctual_using_subcommand {one}; and __fish_seen_subcommand_from {two}"
            ),
            _ => continue,
        };
        whole.push_str(&format!("complete -c punctual -n '{is_it}' {asks}\n"));
    }
    whole
}
