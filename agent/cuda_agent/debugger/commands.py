"""The debugger's commands: names, abbreviations, arguments, help. pdb's names where pdb has the command."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cuda_agent.debugger import changing, looking, moving, travelling
from cuda_agent.debugger.desk import Desk
from cuda_agent.debugger.happenings import MEANING, Happening
from cuda_agent.debugger.screen import WIDTH, paragraph, table
from cuda_agent.debugger.stepper import Halt
from cuda_agent.errors import UsageError


def _nothing(desk: Desk) -> Sequence[str]:
    return ()


@dataclass(frozen=True)
class Command:
    """One line of the table."""

    name: str
    run: Callable[[Desk, str], Halt | None]
    help: str
    """The first sentence stands in the list, all of it in `help NAME`."""
    short: tuple[str, ...] = ()
    arguments: str = ""
    words: Callable[[Desk], Sequence[str]] = _nothing
    """What its first argument may be, for completion."""
    repeats: bool = False
    """An empty line does it again."""


def find(word: str) -> Command:
    """Return the command of this name, abbreviation or unambiguous beginning.

    Raises:
        UsageError: there is none, or several begin so.
    """
    exact = [command for command in COMMANDS if word == command.name or word in command.short]
    found = exact or [command for command in COMMANDS if command.name.startswith(word)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{word!r} may be {' or '.join(command.name for command in found)}; write more of it.")
    raise UsageError(f"There is no command {word!r}; `help` lists them, `say {word} ...` tells the model.")


def show_help(desk: Desk, rest: str) -> Halt | None:
    """List the commands, or say all about one."""
    if rest:
        command = find(rest)
        names = ", ".join((command.name, *command.short))
        desk.write(f"{names} {command.arguments}".rstrip())
        desk.write(paragraph(command.help, indent="    "))
        return None
    rows = [(f"{', '.join((one.name, *one.short))} {one.arguments}".rstrip(), _first(one.help)) for one in COMMANDS]
    width = min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns)
    column = max(len(left) for left, _ in rows) + 2
    for left, right in rows:
        lines = paragraph(right, width=max(20, width - column)).split("\n")
        for number, line in enumerate(lines):
            desk.write(f"{left if number == 0 else '':<{column}}{line}")
    return None


def _first(text: str) -> str:
    return text.split(". ")[0].rstrip(".")


def _tools(desk: Desk) -> Sequence[str]:
    return [spec.name for spec in desk.session.person.tools]


def _breakables(desk: Desk) -> Sequence[str]:
    return [*_tools(desk), *Happening]


def _numbers(desk: Desk) -> Sequence[str]:
    return [str(point.number) for point in desk.stepper.breakpoints.all]


def _turns(desk: Desk) -> Sequence[str]:
    return [str(number) for number in range(desk.session.agent.turn + 1)]


def _keys(desk: Desk) -> Sequence[str]:
    call = desk.stepper.pending
    return [f"{key}=" for key in (call.arguments or {})] if call else ()


_BREAK = (
    "Stop before calls, or when something happened; alone it lists the breakpoints. TOOL is the name of a tool, PATTERN"
    " a regular expression looked for in a command or path. EVENT is one of:\n"
    + "\n".join(table([(f"  {name}", meaning) for name, meaning in MEANING.items()]))
)

_PRINT = (
    f"Show the pending call, or another topic: {', '.join(looking.TOPICS)}. `print message` lists the messages,"
    " `print message N` or `print N` shows one."
)
_EDIT = (
    "Change the pending call. `edit` opens it in $EDITOR, `edit KEY` one of its arguments, `edit KEY=VALUE` needs no"
    " editor; edits.0.new_string is a key, too. The conversation shows what ran, and the model is told that a person"
    " changed it."
)
_RUN = (
    "Call a tool yourself; the model is told. The arguments are JSON; a tool that needs one only takes it as it"
    " stands: `run Bash ls -l`."
)
_SET = f"Change the course: {', '.join(changing.SETTERS)}. time_limit is in seconds, or none."
_FORK = (
    "Start another run from the end of turn N and go on in it. This run is kept as it is; both name each other."
    " --model lets another model take over."
)

COMMANDS: tuple[Command, ...] = (
    Command(
        "step",
        moving.step,
        "Run the pending call and stop before the next one; ask the model where none is left.",
        ("s",),
        repeats=True,
    ),
    Command("next", moving.next_verdict, "Go on to the next verdict.", ("n",), repeats=True),
    Command("continue", moving.go_on, "Go on to a breakpoint or the end; there it finishes the run.", ("c", "cont")),
    Command("until", moving.until, "Go on until turn N.", ("unt",), "N"),
    Command("break", moving.set_break, _BREAK, ("b",), "[TOOL] [PATTERN] | EVENT", _breakables),
    Command("delete", moving.delete, "Delete breakpoints; alone it deletes all.", ("clear", "cl"), "[N ...]", _numbers),
    Command("list", looking.list_calls, "List the last calls and the breakpoints; > marks the pending call.", ("l",)),
    Command("print", looking.print_topic, _PRINT, ("p",), "[TOPIC]", lambda desk: list(looking.TOPICS)),
    Command("diff", looking.diff, "Compare the kernels of two turns. `now` is the workspace.", (), "A [B]", _turns),
    Command("show", looking.show_verdict, "Show the last verdict with its times, errors and profile."),
    Command("sh", looking.shell, "Run a command in the sandbox; the model does not see it.", ("!",), "CMD"),
    Command("edit", changing.edit, _EDIT, (), "[KEY[=VALUE]]", _keys),
    Command("skip", changing.skip, "Do not run the pending call; the model sees the reason.", (), "REASON"),
    Command("say", changing.say, "Tell the model something.", (), "TEXT"),
    Command("run", changing.run, _RUN, (), "TOOL ARGUMENTS", _tools),
    Command("judge", changing.judge, "Take a verdict on the workspace now.", ("j",)),
    Command("set", changing.set_value, _SET, (), "NAME VALUE", lambda desk: list(changing.SETTERS)),
    Command("back", travelling.back, "Go back one turn, or N: files and conversation are as they were.", (), "[N]"),
    Command("goto", travelling.goto, "Go to the end of turn N.", (), "N", _turns),
    Command("fork", travelling.fork, _FORK, (), "N [--model MODEL]", _turns),
    Command("quit", moving.quit_run, "Leave; the run is kept and can be gone on with.", ("q", "exit")),
    Command(
        "help",
        show_help,
        "List the commands, or explain one.",
        ("h", "?"),
        "[COMMAND]",
        lambda desk: [one.name for one in COMMANDS],
    ),
)
