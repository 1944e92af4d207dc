"""Sessions of the `cuda` target, judged by the real judge on a real GPU."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from judging import Answer, Bench, invoke

Judge = Callable[..., Answer]


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("gpu"))


@pytest.fixture
def judge(bench: Bench, tmp_path: Path) -> Judge:
    """Judge a submission with these kernels against `operator` on the GPU."""

    def run(
        submission: str,
        *,
        operator: str,
        kernels: dict[str, str],
        command: str = "verify",
        options: tuple[str, ...] = (),
        **settings: Any,
    ) -> Answer:
        given = {"target": "cuda", "precision": "tf32", "libraries": "vendor"} | settings
        session = bench.session(operator, json.loads(json.dumps(given)))
        workspace = tmp_path / "workspace"
        (workspace / "kernels").mkdir(parents=True, exist_ok=True)
        (workspace / "model_new.py").write_text(submission)
        for name, text in kernels.items():
            (workspace / "kernels" / name).write_text(text)
        return invoke(session, workspace, command, tmp_path / "report.json", options)

    return run
