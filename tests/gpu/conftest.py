"""Sessions of the `cuda` target, judged by the real judge on a real GPU."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from judging import LOCKS, Answer, Bench, Forking, invoke

Judge = Callable[..., Answer]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = [
        what
        for what, there in (("an NVIDIA GPU", torch.cuda.is_available()), ("nvcc", shutil.which("nvcc") is not None))
        if not there
    ]
    if missing:
        for item in items:
            item.add_marker(pytest.mark.skip(reason=f"needs {' and '.join(missing)}"))


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    root = tmp_path_factory.mktemp("gpu")
    return Bench(root, builds=root / "builds")


@pytest.fixture(scope="session")
def forking() -> Iterator[Forking]:
    """A judge takes seconds to import torch: here they all are forked from one process that has."""
    with Forking("cuda") as found:
        yield found


@pytest.fixture
def judge(bench: Bench, forking: Forking, tmp_path: Path) -> Judge:
    """Judge a submission with these kernels against `operator` on the GPU."""

    def run(
        submission: str,
        *,
        operator: str,
        kernels: dict[str, str],
        command: str = "verify",
        options: tuple[str, ...] = (),
        defences: dict[str, Any] | None = None,
        **settings: Any,
    ) -> Answer:
        locks = {"locks": os.environ[LOCKS]} if LOCKS in os.environ else {}
        given = {"target": "cuda", "precision": "tf32", "libraries": "vendor"} | locks | settings
        session = bench.session(operator, json.loads(json.dumps(given)))
        workspace = tmp_path / "workspace"
        (workspace / "kernels").mkdir(parents=True, exist_ok=True)
        (workspace / "model_new.py").write_text(submission)
        for name, text in kernels.items():
            (workspace / "kernels" / name).write_text(text)
        return invoke(session, workspace, command, tmp_path / "report.json", options, defences, forking)

    return run
