import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cuda_agent.runs.limited import LimitedSandbox
from cuda_agent.sandbox.local import LocalSandbox
from cuda_agent_tools.bash import Bash
from cuda_agent_tools.sandbox import SandboxLost
from cuda_agent_tools.tool import ToolError

Run = Callable[..., str]


def test_output_comes_back(bash: Run) -> None:
    assert bash("echo hello") == "hello"


def test_no_output_is_said(bash: Run) -> None:
    assert bash("true") == "(no output)"


def test_the_exit_code_is_shown_when_it_is_not_0(bash: Run) -> None:
    assert bash("echo a; (exit 5)") == "a\n[exit code 5]"
    assert bash("false") == "(no output)\n[exit code 1]"
    assert "[exit code 139: segmentation fault]" in bash("bash -c 'kill -SEGV $$'")


def test_stderr_comes_in_its_place(bash: Run) -> None:
    assert bash("echo 1; echo 2 >&2; echo 3; echo 4 >&2") == "1\n2\n3\n4"


def test_errors_name_the_line_of_the_command(bash: Run) -> None:
    assert bash("echo a\nno-such-command").startswith("a\nbash: line 2: no-such-command: command not found")
    assert "syntax error" in bash("if then")


def test_the_directory_lasts(bash: Run, workspace: Path) -> None:
    bash("mkdir -p 'a b/c'; cd 'a b/c'")
    assert bash("pwd") == str(workspace / "a b/c")
    assert bash("cd - >/dev/null; pwd") == str(workspace)


@pytest.mark.parametrize(
    ("define", "show", "expected"),
    [
        ("PLAIN='a  b'", 'echo "$PLAIN"', "a  b"),
        ("export OUT=1", "env | grep ^OUT=", "OUT=1"),
        ("LINES_=$'x\\n y\\n'", 'printf %s "$LINES_" | wc -l', "2"),
        ("list=(1 '2 3')", 'echo "${#list[@]} ${list[1]}"', "2 2 3"),
        ("declare -A map=([k]=v)", 'echo "${map[k]}"', "v"),
        ("declare -i n=4", "n+=3; echo $n", "7"),
        ("readonly FIXED=1", "FIXED=2; echo $FIXED", "bash: line 1: FIXED: readonly variable\n[exit code 1]"),
        ("HOME=/other", "env | grep ^HOME=", "HOME=/other"),
        ("HOME=/other; f() { HOME=$OLD; }; OLD=$HOME; unset HOME; HOME=x", "env | grep -c ^HOME=", "0\n[exit code 1]"),
        (
            "PATH=$PATH:/added; unset LANG",
            'echo "${PATH##*:} ${LANG-none}"; ls / >/dev/null && echo ok',
            "/added none\nok",
        ),
        ("export GONE=1; unset GONE HOME", 'echo "${GONE-none} ${HOME-none}"', "none none"),
        ('f() { echo "in f: $1"; }', "f 2", "in f: 2"),
        ("g() { cat <<'X'\n$a\nX\n}", "g", "$a"),
        ("h() { echo h; }; export -f h", "bash -c h", "h"),
        ("set -o pipefail", "false | true; echo $?", "1"),
        ("shopt -s extglob nullglob", "echo !(x) no*thing", ""),
        ("set -u", "echo $NOT_SET", "bash: line 1: NOT_SET: unbound variable\n[exit code 127]"),
        ("IFS=:", "x=a:b; echo $x", "a b"),
        ("shopt -s expand_aliases; alias say='echo said'", "say", "said"),
        ("umask 077", "umask", "0077"),
        ('export Q="it\'s \\"q\\" \\$x \\`y\\` \\\\ é"', 'echo "$Q"', 'it\'s "q" $x `y` \\ é'),
    ],
)
def test_what_a_command_sets_up_lasts(bash: Run, define: str, show: str, expected: str) -> None:
    assert bash(define) == "(no output)"
    assert bash("true") == "(no output)"
    assert bash(show) == (expected or "(no output)")


def test_exit_ends_the_command_and_not_the_session(bash: Run) -> None:
    assert bash("A=1; cd /usr; exit 3; echo never") == "(no output)\n[exit code 3]"
    assert bash("echo $A; pwd") == "1\n/usr"


def test_set_e_does_not_end_the_session(bash: Run) -> None:
    assert bash("set -e; A=1; false; echo never") == "(no output)\n[exit code 1]"
    assert bash("echo $A") == "1"
    assert bash("set +e; false; echo on") == "on"


def test_tracing_shows_the_command_s_lines_only(bash: Run) -> None:
    bash("set -x")
    assert bash("echo a") == "++ echo a\na"


def test_a_trap_of_the_command_runs_and_the_session_is_kept(bash: Run) -> None:
    assert bash("trap 'echo bye' EXIT; B=2; exit 4") == "bye\n[exit code 4]"
    assert bash("echo $B") == "2"


def test_a_shell_that_kills_itself_leaves_the_session_as_it_was(bash: Run) -> None:
    bash("A=1")
    assert "[exit code 137" in bash("A=2; kill -9 $$")
    assert bash("echo $A") == "1"


def test_a_directory_that_is_gone_is_said(bash: Run, workspace: Path) -> None:
    bash("mkdir d; cd d")
    bash("rmdir ../d")
    assert bash("pwd") == f"[the directory {workspace}/d is gone; the shell is in {workspace}]\n{workspace}"
    assert bash("pwd") == str(workspace)


def test_a_state_that_cannot_be_kept_is_said_and_the_old_one_stays(bash: Run) -> None:
    bash("A=1; cd /usr")
    assert bash("A=2; cd /; trap '' XFSZ; ulimit -f 0").startswith("[the directory and variables of this command could")
    assert bash("echo $A; pwd") == "1\n/usr"


def test_the_state_is_kept_out_of_the_workspace(bash: Run, workspace: Path) -> None:
    bash("A=1; cd /")
    assert list(workspace.iterdir()) == []


@pytest.mark.parametrize("command", ["cat", "python3", "read x", "sort | wc -l"])
def test_reading_stdin_ends_at_once(bash: Run, command: str) -> None:
    assert "timed out" not in bash(command, timeout=30_000)


def test_a_timeout_restarts_the_shell_where_it_was(bash: Run, workspace: Path) -> None:
    bash("OLD=1; mkdir sub")
    said = bash("cd sub; NEW=2; echo before; sleep 300; echo never", timeout=2000)
    assert said.startswith("before\n")
    assert "[timed out after 2 s" in said
    assert f"restarted in {workspace}/sub" in said
    assert "no stdin" in said
    assert "`timeout`" in said
    assert "never" not in said
    assert bash("echo $OLD $NEW; pwd") == f"1 2\n{workspace}/sub"


def test_a_timeout_is_an_error_and_an_exit_code_is_not(sandbox: LocalSandbox) -> None:
    assert Bash(sandbox).run({"command": "sleep 300", "timeout": 1000}).is_error
    assert not Bash(sandbox).run({"command": "exit 1"}).is_error


def test_a_timeout_leaves_no_process(bash: Run) -> None:
    bash("export MARK_OF_TEST_BASH=here")
    bash("setsid sleep 78 & sleep 79", timeout=1500)
    bash("python3 -c 'while 1: pass'", timeout=1500)
    left = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            left += [pid] if b"MARK_OF_TEST_BASH=here" in Path(f"/proc/{pid}/environ").read_bytes() else []
        except OSError:
            continue
    assert left == []


def test_background_children_do_not_hold_the_call(bash: Run) -> None:
    assert bash("sleep 300 & setsid sleep 301 & echo done", timeout=60_000) == "done"


def test_silence_is_no_reason_to_kill(bash: Run) -> None:
    assert bash("sleep 3; echo ok") == "ok"


BODY = "$x `date` $(date)\n< line\n\tTab\\n \\\\ 'q' \"q\"\nEOF2\n EOF\nend é"


def test_a_here_document_is_written_byte_for_byte(bash: Run, workspace: Path) -> None:
    assert bash(f"cat > k.cu <<'EOF'\n{BODY}\nEOF") == "(no output)"
    assert (workspace / "k.cu").read_text() == BODY + "\n"
    assert bash(f"cat > a <<'EOF' && echo ok\n{BODY}\nEOF\nprintf '%s' x > b\n") == "ok"
    assert (workspace / "a").read_text() == BODY + "\n"
    assert (workspace / "b").read_text() == "x"


def test_a_here_document_without_an_end_is_an_error(bash: Run, workspace: Path) -> None:
    said = bash("echo ran\ncat > k.cu <<'EOF'\nbody\nEOF2", timeout=30_000)
    assert said == "bash: the here-document of line 2 has no end (EOF alone on a line); nothing was run\n[exit code 2]"
    assert not (workspace / "k.cu").exists()


def test_here_strings_and_shifts_are_no_here_documents(bash: Run) -> None:
    assert bash("cat <<< word; echo $((1 << 3)) '<<EOF'") == "word\n8 <<EOF"


def test_a_long_command_fits(bash: Run) -> None:
    lines = "\n".join(f"line {number}" for number in range(40_000))
    assert bash(f"wc -l <<'EOF'\n{lines}\nEOF") == "40000"


def test_long_output_is_cut_with_its_first_error_and_saved(bash: Run) -> None:
    said = bash("seq 1 9999; echo 'k.cu(7): error: first'; echo 'k.cu(8): error: second'; seq 10000 19999; echo end")
    assert len(said) < 14_000
    assert said.startswith("1\n2\n3\n")
    assert "k.cu(7): error: first" in said
    assert "19999\nend\n" in said
    path = said.rpartition(" ")[2].removesuffix("]")
    assert bash(f"wc -l < {path}; sed -n 5000p {path}") == "20002\n5000"


def test_a_flood_is_cut_and_its_size_said(bash: Run) -> None:
    said = bash("yes | head -c 300000000; echo; echo last")
    assert len(said) < 14_000
    assert "last" in said
    assert "all but 298,000,006 bytes" in said


def test_a_flood_of_nothing_readable_is_said(bash: Run) -> None:
    assert bash("head -c 300000000 /dev/zero").startswith("(300,000,000 bytes of output")


def test_undecodable_output_is_replaced(bash: Run) -> None:
    assert bash(r"printf '\xff\xfe\x00ok'") == "\ufffd\ufffdok"
    assert bash(r"printf 'caf\xe9' > latin; cat latin") == "caf\ufffd"


def test_colours_and_progress_bars_come_out_as_their_last_state(bash: Run) -> None:
    assert bash(r"printf '\033[31mred\033[0m 10%%\r\033[Kdone\n'") == "done"


def test_output_is_passed_on_as_it_comes(sandbox: LocalSandbox) -> None:
    pieces: list[bytes] = []
    Bash(sandbox).run({"command": "echo live"}, on_output=pieces.append)
    assert b"".join(pieces) == b"live\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, r"`command` is missing; the arguments are command, timeout \(optional\), description \(optional\)"),
        ({"command": ""}, "`command` must not be empty"),
        ({"command": 3}, "`command` should be a valid string, got 3"),
        ({"command": "true", "timeout": 600_001}, "`timeout` should be less than or equal to 600000"),
        ({"command": "true", "timeout": 0}, "`timeout` should be greater than or equal to 1"),
        ({"command": "true", "cwd": "/"}, "there is no argument `cwd`"),
        ({"command": "echo a\0b"}, "NUL"),
        ({"command": "echo \ud800"}, "unicode"),
    ],
)
def test_wrong_arguments_are_refused_in_one_sentence(
    sandbox: LocalSandbox, arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(ToolError, match=message):
        Bash(sandbox).run(arguments)


def test_a_lost_sandbox_is_no_failed_command(bash: Run, workspace: Path) -> None:
    shutil.rmtree(workspace)
    with pytest.raises(SandboxLost):
        bash("true")


def test_what_a_new_sandbox_gives_is_not_overwritten(sandbox: LocalSandbox, tmp_path: Path) -> None:
    Bash(sandbox).run({"command": "A=kept"})
    sandbox.stop()
    with LocalSandbox(
        workspace=Path(sandbox.workspace),
        state_dir=Path(sandbox.state_dir),
        python=Path(sandbox.python),
        extra_env={"CUDA_VISIBLE_DEVICES": "3"},
    ) as again:
        assert Bash(again).run({"command": "echo $A $CUDA_VISIBLE_DEVICES"}).text == "kept 3"


def test_a_new_tool_on_the_same_state_goes_on_with_the_session(sandbox: LocalSandbox) -> None:
    Bash(sandbox).run({"command": "A=kept; cd /usr"})
    assert Bash(sandbox).run({"command": "echo $A; pwd"}).text == "kept\n/usr"


def test_a_sandbox_that_gives_less_time_is_not_said_to_have_given_all_of_it(sandbox: LocalSandbox) -> None:
    hurried = Bash(LimitedSandbox(sandbox, lambda: 0.0))
    text = hurried.run({"command": "sleep 60", "timeout": 60_000}).text
    assert "the run's time is up" in text
    assert "60 s" not in text
