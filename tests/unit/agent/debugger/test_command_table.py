"""The table of commands: names, beginnings, completion, help."""

import pytest
from tests.unit.agent.debugger.table import Open
from tests.unit.agent.fakes import call, calls

from cuda_agent.debugger.commands import COMMANDS, find
from cuda_agent.debugger.console import words_for
from cuda_agent.errors import UsageError


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("s", "step"),
        ("n", "next"),
        ("c", "continue"),
        ("cont", "continue"),
        ("unt", "until"),
        ("b", "break"),
        ("cl", "delete"),
        ("l", "list"),
        ("p", "print"),
        ("q", "quit"),
        ("h", "help"),
        ("?", "help"),
        ("!", "sh"),
        ("di", "diff"),
        ("f", "fork"),
        ("step", "step"),
    ],
)
def test_names_and_abbreviations(typed: str, name: str) -> None:
    assert find(typed).name == name


def test_a_beginning_that_several_commands_share_is_refused() -> None:
    with pytest.raises(UsageError, match="'d' may be delete or diff"):
        find("d")


def test_completion(sit: Open) -> None:
    table = sit([calls(call("Write", "a", text="A"))])
    table.talk("s", "b Write")
    assert set(words_for(table.desk, "s")) >= {"step", "sh", "skip", "say", "set", "show"}
    assert "failed-compile" in words_for(table.desk, "b f")
    assert words_for(table.desk, "b Wr") == ["Write"]
    assert set(words_for(table.desk, "print to")) == {"tokens", "todos"}
    assert words_for(table.desk, "edit ") == ["text="]
    assert words_for(table.desk, "delete ") == ["1"]
    assert words_for(table.desk, "nonsense x") == ()
    assert words_for(table.desk, "set max_turns 3") == ()


def test_help_tells_of_every_command(sit: Open) -> None:
    text = sit([]).talk("help", *(f"help {command.name}" for command in COMMANDS))
    assert all(command.name in text for command in COMMANDS)
