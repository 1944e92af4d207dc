import math
from pathlib import Path
from typing import Any

import pytest
from tests.unit.agent.fakes import FakeSandbox

from cuda_agent.runs.limited import LimitedSandbox
from cuda_agent_tools.sandbox import ExecResult


class Timed(FakeSandbox):
    """Keeps the timeouts it was given."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.timeouts: list[float] = []

    def exec(self, argv: Any, *, timeout_s: float = 120.0, **more: Any) -> ExecResult:
        self.timeouts.append(timeout_s)
        return super().exec(argv, timeout_s=timeout_s, **more)


@pytest.mark.parametrize(("left", "given"), [(math.inf, 600.0), (1000.0, 600.0), (77.0, 77.0), (-3.0, 5.0)])
def test_a_command_gets_no_more_time_than_the_run_has(tmp_path: Path, left: float, given: float) -> None:
    sandbox = Timed(tmp_path)
    limited = LimitedSandbox(sandbox, lambda: left)
    assert limited.exec(["echo", "x"], timeout_s=600.0).stdout == b"x\n"
    assert sandbox.timeouts == [given]


def test_files_are_the_sandboxs_own(tmp_path: Path) -> None:
    limited = LimitedSandbox(FakeSandbox(tmp_path), lambda: 10.0)
    limited.write("a/b", b"x")
    assert (Path(limited.workspace) / "a/b").read_bytes() == limited.read("a/b") == b"x"
