"""Commands as a person types them, and what they answer."""

import re
from pathlib import Path

import pytest
from tests.unit.agent.debugger.table import Open, raises
from tests.unit.agent.fakes import DONE, call, calls, report

from cuda_agent.debugger.screen import WIDTH, plain
from cuda_agent.errors import UsageError
from cuda_agent.llm.model import Reply, ToolCall, Usage
from cuda_agent_judge.report import OutputError, Report

ESCAPES = "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b2J \u202ebidi \r\x08\0 end"


MISTAKES = [
    ("nonsense", "no command 'nonsense'"),
    ("until", "whole number"),
    ("goto", "from 0 on."),
    ("until x", "'x'"),
    ("until -1", "'-1'"),
    ("until 1", "in turn 1 already"),
    ("break (", "no regular expression"),
    ("delete 7", "no breakpoint 7"),
    ("delete x", "'x'"),
    ("print nothing", "print knows call"),
    ("print message 99", "no message 99"),
    ("print message x", "'x'"),
    ("diff", "one or two turns"),
    ("diff 1 2 3", "one or two turns"),
    ("diff 9", "still to come"),
    ("diff x", "'x'"),
    ("sh", "needs a command"),
    ("edit other=1", "no 'other'; there is text"),
    ("edit text.0=1", "no"),
    ("edit text", "no editor here"),
    ("edit", "no editor here"),
    ("skip", "needs a reason"),
    ("say", "needs what"),
    ("set", "set needs one of"),
    ("set speed 3", "set needs one of"),
    ("set max_turns", "set needs one of"),
    ("set max_turns 0", "from 1 on"),
    ("set max_turns many", "'many'"),
    ("set time_limit -3", "from 0 on"),
    ("set time_limit nan", "from 0 on"),
    ("set time_limit 0", "more than 0"),
    ("set temperature 1", "has no temperature"),
    ("set model gpt-99", "gpt-99"),
    ("set polish -1", "from 0 on"),
    ("run", "run needs a tool"),
    ("run Nothing {}", "run needs a tool"),
    ("run Write", "must be a JSON object, as in"),
    ("run Write [1]", "must be a JSON object"),
    ('run Write {"text"', "must be a JSON object"),
    ("help nonsense", "no command 'nonsense'"),
    ("\x1b[31m", "no command"),
]


def no_editor(text: str, *, suffix: str) -> str:
    raise UsageError("There is no editor here.")


@pytest.mark.parametrize(("line", "said"), MISTAKES)
def test_a_mistake_is_one_sentence_and_changes_nothing(sit: Open, line: str, said: str) -> None:
    table = sit([calls(call("Write", "a", text="A"))], editor=no_editor)
    table.talk("step")
    before = table.agent.messages[:]
    text = table.talk(line, "print")
    mistakes = [part for part in table.written if part.startswith("***")]
    assert len(mistakes) == 1, text
    assert re.search(re.escape(said), " ".join(mistakes[0].split()), re.I), mistakes
    assert all(len(line) <= WIDTH for line in mistakes[0].split("\n"))
    assert "\x1b" not in mistakes[0]
    assert "call 1 of 1: Write" in text  # the session goes on
    assert table.agent.messages == before


def test_nothing_that_a_model_or_a_command_says_reaches_the_terminal_as_an_escape(sit: Open) -> None:
    reply = Reply(
        text=ESCAPES,
        reasoning=ESCAPES,
        tool_calls=(
            ToolCall(f"i{ESCAPES}", f"Na{ESCAPES}", {ESCAPES: ESCAPES, "command": [ESCAPES, {ESCAPES: 1}]}),
            ToolCall("j", "Write", None, ESCAPES),
            ToolCall("k", "TodoWrite", {"todos": [{"content": ESCAPES, "status": ESCAPES}]}),
            ToolCall("m", "Write", {"text": ESCAPES}),
        ),
    )
    verdict = report("tie", 1.0, reason=ESCAPES, details=ESCAPES, notes=[ESCAPES])
    table = sit([reply, DONE], [verdict], [report("tie", 1.0, final=True, reason=ESCAPES)])
    commands = ["s", "p", "p reply", "p message", "l", "p todos", f"say {ESCAPES}", f"b {ESCAPES.replace('[', '')}"]
    shown = table.talk(*commands, "s", "p", "l", "s", "p", "s", "p", "s", "judge", "show", "p ledger", "diff 0", "p 2",
                       "sh printf '\\033[31mx\\r\\x08\\x9b2J\\n'", "p message", "c")  # fmt: skip
    assert "red" in shown
    bad = [char for char in shown if not char.isprintable() and char != "\n"]
    assert bad == []


def test_lines_of_the_position_and_of_lists_fit_into_80_columns(sit: Open) -> None:
    long = "word " * 60
    table = sit([Reply(text=long, tool_calls=(call("Bash", "a", command="x" * 300),)), DONE])
    shown = table.talk(
        "s", "l", "p message", "help", "p tokens", "p budget", "p todos", "p ledger", "h edit", "h break"
    )
    over = [line for line in shown.split("\n") if len(line) > 80 and not re.search("command: xxx|kept in", line)]
    assert over == []


def test_a_reply_is_shown_with_its_reasoning(sit: Open) -> None:
    table = sit(
        [Reply(text="I write it.", reasoning="It is memory bound.", tool_calls=(call("Write", "a", text="A"),))]
    )
    text = table.talk("s", "p reply")
    assert "It is memory bound." in text
    assert "I write it." in text
    assert "text: A" in text


def test_there_is_no_turn_before_the_first(sit: Open) -> None:
    assert "*** The run is at its beginning" in sit([DONE]).talk("back")


def test_a_time_limit_that_is_over_already_is_said_to_be(sit: Open) -> None:
    assert "ends after 1e-09 s in all; they are over" in sit([DONE]).talk("set time_limit 1e-9")


def test_deleting_where_nothing_is_to_delete_says_so(sit: Open) -> None:
    assert "There are no breakpoints" in sit([DONE]).talk("delete")


def test_tokens_by_part_say_what_is_counted_and_what_estimated(sit: Open) -> None:
    counted = Reply(tool_calls=(call("Write", "a", text="A"),), usage=Usage(1000, 50, 200, 0.25))
    table = sit([counted, DONE])
    text = table.talk("s", "p tokens", "p budget")
    assert "1,000 in the last request, as the provider counted; the parts are estimated" in " ".join(text.split())
    parts = dict(re.findall(r"^(\w[\w ]*?)  +about ([\d,]+)", text, re.M))
    assert {"system", "tools", "task", "model", "observations"} <= set(parts)
    assert 990 <= sum(int(one.replace(",", "")) for one in parts.values()) <= 1010
    assert "1,000 in (200 cached), 50 out" in text
    assert "0.2500 USD" in text
    unknown = sit([Reply(tool_calls=(call("Write", "a", text="A"),))]).talk("s", "p tokens", "p budget")
    assert "an estimate" in unknown
    assert "unknown" in unknown


def test_a_person_runs_a_tool_and_the_model_is_told(sit: Open) -> None:
    table = sit([calls(call("Write", "a", text="A")), DONE], [report("tie", 1.0)])
    text = table.talk("s", "run Write by hand", "s")
    assert "wrote by hand" in text
    person = [event for event in table.heard.events if getattr(event, "by", "") == "person"]
    assert [event.type for event in person] == ["tool_call", "observation", "message"]
    assert "A person ran Write" in table.said()[0]
    assert "wrote by hand" in table.said()[0]
    assert len(table.answers()) == 1  # it is no part of the conversation's calls


def test_an_interrupted_call_of_a_persons_own_is_written_down(sit: Open) -> None:
    table = sit([DONE], tools=[raises(KeyboardInterrupt())])
    assert "Interrupted" in table.talk("run Hang {}", "p budget")
    assert table.heard.of("observation")[0].by == "person"


def test_edit_in_an_editor_takes_one_argument_or_the_whole_call(sit: Open) -> None:
    seen = []

    def editor(text: str, *, suffix: str) -> str:
        seen.append((text, suffix))
        return text.replace("old", "new") + ("" if text.endswith("\n") else "\n")

    table = sit(
        [calls(call("Write", "a", text="old", file_path="k.cpp"), call("Write", "b", text="old"))], editor=editor
    )
    table.talk("s", "edit text", "s", "edit")
    assert seen[0] == ("old", ".cpp")
    assert seen[1][1] == ".json"
    assert table.files == {"model_new.py": b"new\n"}
    assert table.stepper.pending is not None
    assert table.stepper.pending.arguments == {"text": "new"}


@pytest.mark.parametrize(
    ("path", "suffix"),
    [("a/k.cpp", ".cpp"), ("k.b\0/x", ".txt"), (f"k.{'x' * 300}", ".txt"), ("k.a b", ".txt"), ("k", ".txt")],
)
def test_the_file_for_the_editor_is_named_by_nothing_odd_in_the_models_path(sit: Open, path: str, suffix: str) -> None:
    seen: list[str] = []

    def editor(text: str, *, suffix: str) -> str:
        seen.append(suffix)
        return text

    sit([calls(call("Write", "a", text="old", file_path=path))], editor=editor).talk("s", "edit text")
    assert seen == [suffix]


def test_a_command_that_cannot_be_started_is_a_sentence_and_no_end(sit: Open) -> None:
    table = sit([calls(call("Write", "a", text="A"))], real_files=True)
    table.desk.session.sandbox.workspace = "/nowhere"
    assert "*** " in table.talk("sh ls", "s")
    assert table.stepper.pending is not None


def test_an_unchanged_edit_is_no_change(sit: Open) -> None:
    table = sit([calls(call("Write", "a", text="A"))], editor=lambda text, *, suffix: f"{text}\n")
    assert "unchanged" in table.talk("s", "edit text")
    assert table.heard.of("call_changed") == []


def test_values_that_are_no_texts_are_json(sit: Open) -> None:
    table = sit([calls(ToolCall("a", "MultiEdit", {"edits": [{"n": 1, "s": "x"}], "timeout": 5}))])
    text = table.talk(
        "s", "edit timeout=x", "edit timeout=7", "edit edits.0.s=a=b c", "edit edits.1.s=x", "edit edits.0.n=[2]"
    )
    assert text.count("***") == 2
    assert table.stepper.pending is not None
    assert table.stepper.pending.arguments == {"edits": [{"n": [2], "s": "a=b c"}], "timeout": 7}


def test_limits_and_model_are_set_and_noted(sit: Open) -> None:
    table = sit([calls(call("Write", "a", text="A"))])
    text = table.talk("set max-turns 12", "set time_limit=90", "set polish 2", "set model builtin", "p budget")
    assert "***" not in text
    agent = table.agent
    assert (agent.limits.max_turns, agent.limits.polish, agent.model.name) == (12, 2, "builtin")
    assert "of 90 s" in text
    assert [event.text for event in table.heard.of("notice")] == [
        "A person set max_turns to 12.",
        "A person set time_limit to 90.",
        "A person set polish to 2.",
        "A person set model to builtin.",
    ]


def test_diff_and_show_and_ledger(sit: Open) -> None:
    wrong = report("incorrect", reason="output 0 is wrong")
    right = report("tie", 1.01, errors=[OutputError("", "float32", 1e-8, 1e-3, 1e-7, 1e-2)])
    table = sit(
        [calls(call("Write", "a", text="A")), DONE, calls(call("Write", "b", text="B")), DONE, DONE], [wrong, right]
    )
    text = table.talk(
        "show", "p ledger", "until 3", "diff 1", "s", "diff 1 3", "diff 3", "diff 0 1", "show", "p ledger"
    )
    assert "No verdict was taken yet; `judge` takes one." in text
    assert "-A\n+B" in text
    assert text.count("The kernels are the same.") == 2
    assert "+A" in text
    assert "relative L2 1e-08" in text
    assert re.search(r"turn 2 +in loop +incorrect +- +output 0 is wrong", text)
    assert re.search(r"turn 4 +in loop +tie +1\.01x", text)


def test_a_verdict_by_hand_that_wins_ends_the_run(sit: Open) -> None:
    table = sit(
        [calls(call("Write", "a", text="A"), call("Nothing", "b"))],
        [report("win", 2.0)],
        [report("win", 2.0, final=True)],
    )
    text = table.talk("judge", "s", "s", "judge", "c", "c")
    assert "no model_new.py" in text
    assert "final verdict: win" in text
    assert "The run is over: target_reached" in text
    assert str(table.agent.stop.reason if table.agent.stop else "") == "target_reached"


def test_sh_runs_beside_the_model(sit: Open) -> None:
    table = sit([DONE])
    text = table.talk("sh pwd; touch made", "!exit 4")
    assert table.desk.session.sandbox.workspace in text
    assert Path(table.desk.session.sandbox.workspace, "made").exists()
    assert "[exit code 4]" in text
    assert table.said() == []


def test_plain_keeps_what_can_be_read() -> None:
    assert plain("a\r\nb\tc é 漢") == "a\nb   c é 漢"
    assert "\x1b" not in plain(ESCAPES)


def test_a_profile_of_the_models_own_is_shown(sit: Open) -> None:
    profile = Report(command="profile", status="measured", submission_sha256="x", checked_calls=7)
    table = sit([calls(call("Nothing", "a"))], steps=[[profile]])
    assert "The model's own last profile" in table.talk("s", "show")


def test_polish_set_at_the_end_lets_the_run_go_on_for_so_many_turns(sit: Open) -> None:
    turns = [calls(call("Write", f"w{n}", text=str(n)), call("Profile", f"p{n}")) for n in range(4)]
    table = sit(
        turns, [report("win", 2.0 + n) for n in range(4)], [report("win", 2.0 + n, final=True) for n in range(4)]
    )
    text = table.talk("c", "set polish 2", "c", "p ledger")
    assert text.count("The run is over: target_reached") == 2
    assert table.agent.turn == 3
    assert re.search(r"turn 3 +in loop +win +4x", text)
    assert table.agent.stop is not None
