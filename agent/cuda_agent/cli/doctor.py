"""`cuda-agent doctor`."""

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from cuda_agent.cli import options
from cuda_agent.terminal import plain

MARKS = {"fine": "ok", "absent": "--", "problem": "!!"}


def doctor(
    model: Annotated[
        str | None, typer.Option(help="Also ask this LLM for one tiny tool call, which its provider may charge for.")
    ] = None,
    api_base: options.ApiBase = None,
    api_key_env: options.ApiKeyEnv = None,
    clean: Annotated[bool, typer.Option("--clean", help="Remove containers that dead programs left.")] = False,
    as_json: options.AsJson = False,
) -> int:
    """Check what runs need of this machine. Exit codes: 0 nothing to mend, 1 something."""
    from cuda_agent.config import image_tag  # heavy: only when something is checked
    from cuda_agent.doctor import docker, machine

    found = [*machine.checks(os.environ, Path.cwd()), *docker.checks(os.environ, image_tag(os.environ), clean=clean)]
    if model is not None:
        from cuda_agent.doctor.model import check as check_model

        found.append(
            check_model(
                model,
                os.environ,
                api_base=api_base,
                api_key_env=api_key_env,
                notify=lambda text: print(plain(text), file=sys.stderr),
            )
        )
    problems = [check for check in found if check.state == "problem"]
    if as_json:
        checks = [dataclasses.asdict(check) for check in found]
        print(json.dumps({"ok": not problems, "checks": checks}, ensure_ascii=False))
    for check in () if as_json else found:
        print(plain(f"{MARKS[check.state]}  {check.name:<15} {check.said}"))
        if check.remedy:
            print(plain(f"    {'':<15} -> {check.remedy}"))
    return 1 if problems else 0
