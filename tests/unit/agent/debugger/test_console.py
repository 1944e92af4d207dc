"""The session around the commands: empty lines, Ctrl-C, the end of the input, leaving."""

import io
import signal

import pytest
from tests.unit.agent.debugger.table import Open, raises
from tests.unit.agent.fakes import DONE, call, calls, report

from cuda_agent.debugger.lines import PipedLines, history_file
from cuda_agent.debugger.offer import Asker, drive
from cuda_agent.loop.stop import StopReason
from cuda_agent_tools.sandbox import SandboxLost


def test_an_empty_line_repeats_a_step_and_nothing_else(sit: Open) -> None:
    table = sit([calls(call("Nothing", str(n))) for n in range(9)])
    table.talk("", "s", "", "", "p budget", "", "b", "")
    assert table.agent.turn == 3


def test_the_end_of_the_input_keeps_the_run(sit: Open) -> None:
    table = sit([calls(call("Nothing", "a"))])
    text = table.talk("s")
    assert "The run is kept in" in text
    assert table.agent.stop is None
    assert table.heard.of("stopped") == []


def test_a_run_that_is_over_is_finished_when_the_person_leaves(sit: Open) -> None:
    table = sit([calls(call("Write", "a", text="A")), DONE], [report("win", 2.0)], [report("win", 2.0, final=True)])
    text = table.talk("c", "p ledger")
    assert "continue ends it" in text
    assert table.agent.stop is not None
    assert table.agent.stop.reason is StopReason.TARGET_REACHED


def test_ctrl_c_at_the_prompt_clears_the_line_as_often_as_it_comes(sit: Open) -> None:
    table = sit([calls(call("Nothing", "a"))])
    table.talk(*[KeyboardInterrupt()] * 3, "s")
    assert table.agent.turn == 1


def test_ctrl_c_in_a_command_comes_back_to_the_prompt_each_time(sit: Open) -> None:
    table = sit([calls(call("Hang", str(n))) for n in range(3)], tools=[raises(KeyboardInterrupt())])
    text = table.talk("s", "s", "p budget", "c")
    assert text.count("* Interrupted.") == 2
    assert "turns" in text


def test_sigterm_at_the_prompt_leaves_at_once(sit: Open) -> None:
    table = sit([calls(call("Nothing", "a"))])
    signals = table.desk.session.signals
    with signals:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        table.talk("s", "s")
    assert table.agent.turn == 0


def test_a_lost_sandbox_ends_the_session(sit: Open) -> None:
    table = sit([calls(call("Write", "a", text="A"))], tools=[raises(SandboxLost("the workspace is gone"))])
    table.talk("run Hang {}", "s")
    assert table.agent.stop is not None
    assert table.agent.stop.reason is StopReason.SANDBOX_LOST
    assert table.typed.left == ["s"]


def test_piped_lines_are_shown_and_cleaned() -> None:
    out = io.StringIO()
    lines = PipedLines(io.BytesIO(b"s\r\n\x1b[31m \xff\np budget"), out)
    assert [lines.read("> "), lines.read("> "), lines.read("> "), lines.read("> ")] == [
        "s",
        "[31m \ufffd",
        "p budget",
        None,
    ]
    assert out.getvalue() == "> s\n> [31m \ufffd\n> p budget\n> \n"


def test_the_history_is_kept_where_such_files_belong() -> None:
    assert str(history_file({"HOME": "/h"})) == "/h/.local/state/cuda-agent/debug_history"
    assert str(history_file({"HOME": "/h", "XDG_STATE_HOME": "/s"})) == "/s/cuda-agent/debug_history"


@pytest.mark.parametrize(
    ("answers", "reason", "asked"),
    [
        (["s"], StopReason.INTERRUPTED, 1),
        (["c", "s"], StopReason.INTERRUPTED, 2),
        (["c", "c", "c"], StopReason.MAX_TURNS, 3),
    ],
)
def test_ctrl_c_in_a_run_by_itself_asks(sit: Open, answers: list[str], reason: StopReason, asked: int) -> None:
    class Signalled:
        name = "Signal"
        description = "Sends Ctrl-C while it runs."

        def __init__(self) -> None:
            self.parameters: dict[str, object] = {"type": "object"}

        def run(self, arguments: object, *, on_output: object = None) -> object:
            signal.raise_signal(signal.SIGINT)
            from cuda_agent_tools.tool import ToolResult

            return ToolResult("went on")

    table = sit([calls(call("Signal", str(n))) for n in range(4)], tools=[Signalled()], max_turns=3)
    left = list(answers)
    asker = Asker(lambda: left.pop(0))
    with table.desk.session.signals:
        drive(table.desk.session, asker, table.console)
    assert table.agent.stop is not None
    assert table.agent.stop.reason is reason
    assert len(answers) - len(left) == asked
    went_on = [answer for answer in table.answers() if answer.content == "went on"]
    assert len(went_on) == answers.count("c")


def test_ctrl_c_in_a_run_by_itself_opens_the_debugger_where_it_stands(sit: Open) -> None:
    table = sit([calls(call("Hang", "a"), call("Nothing", "b"))], tools=[raises(KeyboardInterrupt())])
    asker = Asker(lambda: "d")
    asker()
    table.typed.left[:] = ["p"]
    drive(table.desk.session, asker, table.console)
    assert "call 2 of 2: Nothing" in table.text
