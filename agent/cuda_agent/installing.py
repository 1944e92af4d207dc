"""Puts the judge, the pristine operator and the rules into a sandbox."""

import base64
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Literal

from cuda_agent.config import Settings
from cuda_agent.errors import JudgeError
from cuda_agent.files import writing
from cuda_agent.operators import Operator
from cuda_agent.resources import judge_main, judge_package, tree, workspace_template
from cuda_agent_tools.sandbox import ExecResult, Sandbox

_WRITE_SCRIPT = """
import base64, json, os, sys
try:
    for name, data in json.load(sys.stdin).items():
        os.makedirs(os.path.dirname(name), exist_ok=True)
        if name.endswith("/"):
            continue
        with open(name, "wb") as file:
            file.write(base64.b64decode(data))
except OSError as error:
    sys.stderr.write(str(error.errno))
    sys.exit(40)
"""


@dataclass(frozen=True)
class Rules:
    """What session.json tells the judge."""

    target: Literal["cpu", "cuda"] = "cpu"
    precision: Literal["tf32", "ieee", "half"] = "tf32"
    libraries: Literal["vendor", "own", "any"] = "vendor"
    output_lifetime: Literal["held", "next-call"] = "held"
    operator_timeout_s: float = 300.0
    """Limit of one step of the operator."""
    model_shares_uid: bool = False
    """A model's commands run under the judge's own uid."""
    locks: str | None = None
    """The directory of the machine's locks, as the judge finds it."""
    cache: str | None = None
    """What this machine's judges keep from run to run, as the judge finds it."""

    @classmethod
    def of(
        cls,
        settings: Settings,
        target: Literal["cpu", "cuda"],
        *,
        model_shares_uid: bool = False,
        locks: str | None = None,
        cache: str | None = None,
    ) -> "Rules":
        """Return the rules of a run; a CPU has no TF32."""
        precision = "ieee" if target == "cpu" else settings.precision
        return cls(
            target,
            precision,
            settings.libraries,
            settings.output_lifetime,
            settings.operator_timeout_s,
            model_shares_uid,
            locks,
            cache,
        )


def home(state_dir: str) -> str:
    """Return JUDGE_HOME for a sandbox with this state directory."""
    return f"{state_dir}/judge"


def session(state_dir: str) -> str:
    """Return the session directory for a sandbox with this state directory."""
    return f"{state_dir}/session"


def write_files(sandbox: Sandbox, python: str, files: Mapping[str, bytes]) -> None:
    """Write many new files by one command; names are absolute, and one that ends in / is a folder.

    Raises:
        DiskError: there is no room.
        JudgeError: they could not be written for another reason.
    """
    encoded = {name: base64.b64encode(data).decode() for name, data in files.items()}
    result = sandbox.exec([python, "-I", "-c", _WRITE_SCRIPT], stdin=json.dumps(encoded).encode(), timeout_s=120.0)
    if result.exit_code == 0:
        return
    number = result.stderr.decode(errors="replace").strip()
    if result.exit_code == 40 and number.isdigit():
        with writing(PurePosixPath(next(iter(files), sandbox.state_dir)).parent):
            raise OSError(int(number), os.strerror(int(number)))
    raise JudgeError(f"Files could not be written in the sandbox: {last_words(result) or result.exit_code}")


def judge_files() -> dict[str, bytes]:
    """The judge, by name below a state directory; it builds with binding files of its own."""
    parts = {"cuda_agent_judge": judge_package(), "workspace": workspace_template()}
    files = {f"/{part}/{name}": data for part, folder in parts.items() for name, data in tree(folder).items()}
    return below(home(""), files | {"/__main__.py": judge_main().read_bytes()})


def session_files(operator: Operator, rules: Rules) -> dict[str, bytes]:
    """A session of this operator, by name below a state directory."""
    files = {f"{session('')}/operator/{name}": data for name, data in operator.files.items()}
    return {**files, f"{session('')}/session.json": json.dumps(asdict(rules)).encode()}


def below(state_dir: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the same files with their names below a directory."""
    return {f"{state_dir}{name}": data for name, data in files.items()}


def last_words(result: ExecResult) -> str:
    """Return the end of what a command said, for a message."""
    text = (result.stderr or result.stdout).decode("utf-8", "replace").strip()
    return text[-800:]
