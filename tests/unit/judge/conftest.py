"""Fixtures of the judge's tests."""

from pathlib import Path
from typing import Any

import pytest
from judging import SCALE, Answer, Bench, Judge, invoke


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("bench"))


@pytest.fixture
def judge(bench: Bench, tmp_path: Path) -> Judge:
    """Judge `submission` (the body of model_new.py) against `operator`."""

    def run(
        submission: str | None,
        *,
        operator: str = SCALE,
        command: str = "verify",
        options: tuple[str, ...] = (),
        kernels: dict[str, str] | None = None,
        defences: dict[str, Any] | None = None,
        **settings: Any,
    ) -> Answer:
        settings = {"libraries": "any", "call_timeout_s": 30} | settings
        session = bench.session(operator, settings)
        workspace = tmp_path / "workspace"
        (workspace / "kernels").mkdir(parents=True, exist_ok=True)
        for name, text in (kernels or {}).items():
            (workspace / "kernels" / name).write_text(text)
        if submission is not None:
            (workspace / "model_new.py").write_text(submission)
        return invoke(session, workspace, command, tmp_path / "report.json", options, defences)

    return run
