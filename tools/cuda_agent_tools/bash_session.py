"""The bash program that makes separate processes look like one session.

The state file lies outside the workspace. It is a bash script: directory, options, variables, functions and aliases as
they were when the last command ended (also by `exit`, by `set -e`, or killed at its deadline). Variables that are as
the sandbox gave them are left out, so that a sandbox started anew may give others.
"""

PROLOGUE = r"""
exec 2>&1
__cuda_agent_state=$2/shell.state
__cuda_agent_command=$(command -p cat)
exec </dev/null
set --
if [[ $__cuda_agent_command == *'<<'* ]]; then
  __cuda_agent_check='here-document at line ([0-9]+) delimited by end-of-file \(wanted `(.*)'\''\)'
  if [[ $(printf '%s\n' "$__cuda_agent_command" | "$BASH" -n 2>&1) =~ $__cuda_agent_check ]]; then
    printf 'bash: the here-document of line %s has no end (%s alone on a line); nothing was run\n' \
      "${BASH_REMATCH[@]:1}"
    exit 2
  fi
fi
declare -A __cuda_agent_base
while read -r __cuda_agent_name; do
  __cuda_agent_base[$__cuda_agent_name]=${!__cuda_agent_name}
done < <(compgen -e)
if [[ -e $__cuda_agent_state ]]; then
  . "$__cuda_agent_state" >/dev/null 2>&1
  if [[ -n $__cuda_agent_gone ]]; then
    printf '[the directory %s is gone; the shell is in %s]\n' "$__cuda_agent_gone" "$PWD"
    unset -v __cuda_agent_gone
  fi
fi
trap() {
  builtin trap "$@" || return
  if ((BASH_SUBSHELL == 0)) && [[ $(builtin trap -p EXIT) != *__cuda_agent_exit* ]]; then
    eval "set -- $(builtin trap -p EXIT)"
    __cuda_agent_at_exit=$3
    builtin trap '{ __cuda_agent_exit; } 2>/dev/null' EXIT
  fi
}
__cuda_agent_exit() {
  local __cuda_agent_code=$? __cuda_agent_on=$SHELLOPTS __cuda_agent_new=$__cuda_agent_state.$$
  set +eux
  [[ -z $__cuda_agent_at_exit ]] || eval "$__cuda_agent_at_exit" 2>&1
  __cuda_agent_save >"$__cuda_agent_new" && command -p mv -f "$__cuda_agent_new" "$__cuda_agent_state" ||
    echo '[the directory and variables of this command could not be kept: is the disk full?]'
  exit "$__cuda_agent_code"
}
__cuda_agent_save() {
  local __cuda_agent_name __cuda_agent_names
  printf 'cd -- %q || __cuda_agent_gone=%q\n' "$(builtin pwd)" "$(builtin pwd)"
  shopt -p
  umask -p
  mapfile -t __cuda_agent_names < <(compgen -v)
  for __cuda_agent_name in "${__cuda_agent_names[@]}"; do
    case $__cuda_agent_name in
      __cuda_agent_*|BASH*|COMP_*|EPOCH*|DIRSTACK|EUID|FUNCNAME|GROUPS|HISTCMD|LINENO) ;;
      PIPESTATUS|PPID|PWD|RANDOM|SECONDS|SHELLOPTS|SHLVL|SRANDOM|UID|_) ;;
      *)
        if [[ ! -v __cuda_agent_base[$__cuda_agent_name] ]]; then
          declare -p "$__cuda_agent_name"
        elif [[ ${__cuda_agent_base[$__cuda_agent_name]} != "${!__cuda_agent_name}" ]]; then
          printf 'unset -v %s\n' "$__cuda_agent_name"
          declare -p "$__cuda_agent_name"
        fi ;;
    esac
  done
  for __cuda_agent_name in "${!__cuda_agent_base[@]}"; do
    [[ -v $__cuda_agent_name ]] || printf 'unset -v %s\n' "$__cuda_agent_name"
  done
  mapfile -t __cuda_agent_names < <(compgen -A function)
  for __cuda_agent_name in "${__cuda_agent_names[@]}"; do
    case $__cuda_agent_name in
      __cuda_agent_*|trap|jobs) ;;
      *) declare -f "$__cuda_agent_name" ;;
    esac
  done
  declare -Fx
  alias -p
  printf '__cuda_agent_options='
  while read -r -d : __cuda_agent_name; do
    case $__cuda_agent_name in
      braceexpand|hashall|interactive-comments|noexec) ;;
      *) printf '"set -o %s;"' "$__cuda_agent_name" ;;
    esac
  done <<<"$__cuda_agent_on:"
  echo
}
jobs() {
  builtin jobs "$@"
  local __cuda_agent_job __cuda_agent_pid __cuda_agent_command __cuda_agent_name
  for __cuda_agent_job in "${__cuda_agent_state%/*}"/jobs/*.job; do
    [[ -e $__cuda_agent_job ]] || continue
    { read -r __cuda_agent_pid && read -r __cuda_agent_command; } <"$__cuda_agent_job"
    if builtin kill -0 "$__cuda_agent_pid" 2>/dev/null; then
      __cuda_agent_name=${__cuda_agent_job##*/}
      printf 'job %s  pid %s  log %s  %s\n' "${__cuda_agent_name%%-*}" "$__cuda_agent_pid" \
        "${__cuda_agent_job%.job}.log" "$__cuda_agent_command"
    fi
  done
}
builtin trap '{ __cuda_agent_exit; } 2>/dev/null' EXIT
builtin trap 'exit 143' TERM
"""
# Options are set by the same eval as the command, so that `set -x` shows nothing of ours.
MAIN = 'eval "$1"; eval "${__cuda_agent_options:+$__cuda_agent_options }$__cuda_agent_command"'

BACKGROUND = r"""
__cuda_agent_log=$3 __cuda_agent_job=${3%.log}.job
eval "$1"
builtin trap - EXIT TERM
unset -f trap
printf '%s\n%s\n' "$$" "${__cuda_agent_command//$'\n'/; }" >"$__cuda_agent_job"
echo "$$"
{ eval "${__cuda_agent_options:+$__cuda_agent_options }$__cuda_agent_command"; } 2>&1 |
  command -p stdbuf -o0 head -c LIMIT >"$__cuda_agent_log"
__cuda_agent_code=${PIPESTATUS[0]}
command -p rm -f "$__cuda_agent_job"
exit "$__cuda_agent_code"
"""
LOG_BYTES = 100_000_000
"""A background command that prints more is ended by SIGPIPE, as `| head` would."""


def background_argv(state_dir: str, log: str) -> list[str]:
    """Return the command that runs what it reads on its stdin in a copy of the session, its output in `log` (*.log).

    It prints its process id first and lists itself for `jobs` in a *.job file beside its log as long as it runs.
    """
    script = BACKGROUND.replace("LIMIT", str(LOG_BYTES))
    return ["bash", "--noprofile", "--norc", "-c", script, "bash", PROLOGUE, state_dir, log]


def session_argv(state_dir: str) -> list[str]:
    """Return the command that runs, in the session kept in `state_dir`, what it reads on its stdin."""
    return ["bash", "--noprofile", "--norc", "-c", MAIN, "bash", PROLOGUE, state_dir]
