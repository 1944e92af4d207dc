"""`cuda-agent judge MODEL.py SUBMISSION`."""

import os
from pathlib import Path
from typing import Annotated

import typer

from cuda_agent.cli import options
from cuda_agent.terminal import plain


def judge(
    operator: options.Operator,
    submission: Annotated[
        Path,
        typer.Argument(
            metavar="SUBMISSION", help="A folder with model_new.py and kernels/, or one file with ModelNew."
        ),
    ],
    sandbox: options.Sandbox = None,
    target: options.Target = None,
    gpu: options.Gpu = None,
    python: options.Python = None,
    precision: options.Precision = None,
    libraries: options.Libraries = None,
    output_lifetime: options.OutputLifetime = None,
    operator_timeout_s: options.OperatorTimeout = None,
    as_json: options.AsJson = False,
) -> int:
    """Build, check and time a submission as a final verdict does. Exit codes: 0 win, 1 any other verdict, 2 usage."""
    # The other options are Settings' fields.
    flags = {name: value for name, value in locals().items() if name not in ("as_json", "submission")}
    import dataclasses  # with the rest: only when a verdict is taken

    from cuda_agent.cli.progress import Progress
    from cuda_agent.config import resolve
    from cuda_agent.runs import judged, summary

    settings = resolve({**flags, "model": "builtin"}, os.environ)
    report = judged.judge(settings, submission, listener=Progress(to_stderr=as_json))
    if as_json:
        print(report.to_json())
    else:
        print(plain("\n".join(summary.verdict_lines(dataclasses.asdict(report)))))
        for text in (report.details, "\n".join(report.performance_lines)):
            if text:
                print(plain(f"\n{text}"))
    return 0 if report.status == "win" else 1
