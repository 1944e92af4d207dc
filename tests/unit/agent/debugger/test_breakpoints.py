"""Where a run stops: calls by tool and pattern, and what happened to the submissions."""

from typing import Any

import pytest
from tests.unit.agent.fakes import call

from cuda_agent.debugger.breakpoints import Breakpoints
from cuda_agent.debugger.happenings import Course, Happening, Limit
from cuda_agent.errors import UsageError
from cuda_agent.llm.model import ToolCall
from cuda_agent_judge.report import Interval, Report

TOOLS = ("Bash", "MultiEdit")
COMPILE = call("Bash", command="bash utils/compile.sh", description="MultiEdit nothing")
EDIT = call("MultiEdit", file_path="kernels/rows.cpp", edits=[{"old_string": "", "new_string": "compile"}])


@pytest.mark.parametrize(
    ("words", "made", "stops"),
    [
        (["Bash"], COMPILE, True),
        (["Bash"], EDIT, False),
        (["Bash", "compile"], COMPILE, True),
        (["Bash", "verif"], COMPILE, False),
        (["compile"], EDIT, False),  # what is written is no command and no path
        (["utils/compile.sh"], COMPILE, True),
        ([r"rows\.cpp$"], EDIT, True),
        (["^rows"], EDIT, False),
        (["bash utils"], COMPILE, True),
        (["compile"], ToolCall("x", "Bash", None, "{compile"), False),
        (["new-best"], COMPILE, False),
    ],
)
def test_which_calls_a_breakpoint_stops(words: list[str], made: ToolCall, stops: bool) -> None:
    points = Breakpoints()
    points.add(words, TOOLS)
    assert (points.at_call(made) is not None) is stops


def test_breakpoints_are_numbered_counted_and_deleted(request: pytest.FixtureRequest) -> None:
    points = Breakpoints()
    with pytest.raises(UsageError, match="no regular expression"):
        points.add(["["], TOOLS)
    assert [points.add([words], TOOLS).number for words in ("Bash", "compile")] == [1, 2]
    hit = points.at_call(COMPILE)
    assert hit is not None
    assert (hit.number, [point.hits for point in points.all]) == (1, [1, 1])
    points.delete(1)
    with pytest.raises(UsageError, match="no breakpoint 1"):
        points.delete(1)
    assert points.add(["Bash"], TOOLS).number == 3
    assert points.clear() == 2


def test_a_breakpoint_on_a_first_time_is_done_after_it() -> None:
    points = Breakpoints()
    for name in Happening:
        points.add([name], TOOLS)
    for name in Happening:
        assert points.at([name]) is not None
    assert {point.happening for point in points.all} == {
        Happening.REGRESSION,
        Happening.NEW_BEST,
        Happening.LIMIT_NEAR,
    }


def said(command: Any, status: Any, speedup: float | None = None, sha: str = "s") -> Report:
    speeds = {} if speedup is None else {"compile": Interval(speedup, speedup, speedup)}
    return Report(command=command, status=status, speedup=speeds, submission_sha256=sha)


BEST = Happening.NEW_BEST
WORSE = Happening.REGRESSION
RIGHT = Happening.CORRECT
BROKEN = Happening.FAILED_COMPILE


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ([said("compile", "compile_error")], [[BROKEN]]),
        ([said("compile", "compiled")], [[]]),
        ([said("verify", "incorrect")], [[]]),
        ([said("verify", "correct")], [[RIGHT]]),
        ([said("profile", "measured", sha="")], [[]]),  # the baseline alone
        ([said("profile", "win", 2.0)], [[RIGHT, BEST]]),
        ([said("profile", "win", 2.0), said("verdict", "win", 1.97)], [[RIGHT, BEST], [RIGHT]]),
        ([said("profile", "win", 2.0), said("verdict", "win", 1.8)], [[RIGHT, BEST], [RIGHT, WORSE]]),
        ([said("profile", "slower", 0.5), said("profile", "tie", 1.0)], [[RIGHT, BEST], [RIGHT, BEST]]),
        ([said("verify", "correct"), said("compile", "compile_error")], [[RIGHT], [BROKEN, WORSE]]),
        ([said("verify", "correct"), said("verify", "incorrect")], [[RIGHT], [WORSE]]),
        ([said("verify", "correct"), said("profile", "inconclusive")], [[RIGHT], []]),
    ],
)
def test_what_reports_mean(reports: list[Report], expected: list[list[Happening]]) -> None:
    course = Course(list)
    assert [course.hear([one]) for one in reports] == expected


def test_a_limit_is_near_once() -> None:
    left = [20.0]
    course = Course(lambda: [Limit(left[0], 100), Limit(50, 100)])
    heard = []
    for left[0] in (20, 10, 5, 60, 9):
        heard.append(course.hear([]))
    near = [Happening.LIMIT_NEAR]
    assert heard == [[], near, [], [], near]
