"""The judge role: draws seeds, holds the clock and decides; it runs no tensor operation and no submission."""

import json
import shutil
from dataclasses import replace
from typing import Any

from cuda_agent_judge import checking, compare, explaining, idle, timing, verdict
from cuda_agent_judge.build import BuildResult, build
from cuda_agent_judge.checking import Checker
from cuda_agent_judge.isolation import Identity
from cuda_agent_judge.processes import JudgeEnds
from cuda_agent_judge.protocol import Kind
from cuda_agent_judge.ptxas import CompiledKernel
from cuda_agent_judge.report import Command, Report, Status
from cuda_agent_judge.scoring import SUBMISSION, Measured
from cuda_agent_judge.session import Session
from cuda_agent_judge.statistics import inverse, latency, log_ratios, ratio_interval
from cuda_agent_judge.submission import Sealed
from cuda_agent_judge.symbols import vendor_calls
from cuda_agent_judge.workers import Refused, Workers

_BUILDS_ITSELF = b"cpp_extension"
"""In a model_new.py that has kernels built while it is imported (load_inline), for which it gets a build's time."""


class Judgement:
    """One command's way to its report."""

    def __init__(self, session: Session, report: Report, ends: JudgeEnds, builder: Identity | None = None) -> None:
        """`builder` is who compiles; None is this process's own user."""
        self._session = session
        self.report = report
        self._ends = ends
        self._workers = Workers(ends, session)
        self._idle: list[int] = []
        self._own_folder = ""
        self._builder = builder
        self._kernels: tuple[CompiledKernel, ...] = ()

    def baseline(self) -> None:
        """Time eager and torch.compile alone."""
        self._start_reference()
        self._wait_for_reference()
        self._time(None)
        self.report = replace(self.report, status="measured", reason="eager and torch.compile were timed")
        self._explain(operations=True)

    def submission(self, sealed: Sealed, *, timed: bool) -> None:
        """Build, check and (where asked) time a submission."""
        self._own_folder = str(sealed.folder)
        self._start_reference()
        built = self._build(sealed)
        shared, fds = self._wait_for_reference()
        self._load(sealed, built, shared, fds, timed=timed)
        checker = Checker(self._workers, self._session, shared)
        try:
            checker.check(checking.FINAL if self.report.final else checking.IN_LOOP)
            checker.audit()
            degenerate = checker.degenerate()
            self.report = replace(self.report, status="correct", reason="every checked call was right")
            if timed:
                self._memory()
                self._time(checker)
            checker.check_weights()
            if timed:
                self._explain(record=self.report.final or self.report.command == "profile")
        finally:
            self.report = replace(
                self.report,
                errors=list(checker.errors.values()),
                checked_calls=checker.calls,
                notes=self.report.notes + checker.notes,
            )
        if degenerate:
            raise Refused(
                "not_counted", f"the submission is right, but the operator says nothing about it: {degenerate}"
            )

    def analyze(self) -> None:
        """Screen and trace the operator."""
        answer = self._workers.ask_reference(Kind.ANALYZE)
        found = Report.from_json(json.dumps(answer["report"]))
        reason = found.reason or "the operator was screened and traced"
        self.report = replace(found, reason=reason, nonce=self.report.nonce, rules=self.report.rules)

    def build_only(self, sealed: Sealed) -> None:
        """Compile and nothing else."""
        built = self._build(sealed)
        reason = "the extension is built" if built.library else "there is nothing to build under kernels/"
        self.report = replace(self.report, status="compiled", reason=reason, details=built.log)

    def _build(self, sealed: Sealed) -> BuildResult:
        session = self._session
        out_dir = session.build_dir / ("final" if self.report.final else "loop")
        built = build(
            sealed.folder,
            out_dir,
            target=session.target,
            clean=self.report.final,
            timeout_s=session.build_timeout_s,
            identity=self._builder,
        )
        self._kernels = built.kernels
        self.report = replace(self.report, build_s=built.seconds)
        if not built.ok:
            status: Status = "timeout" if built.timed_out else "compile_error"
            raise Refused(status, built.reason or "the kernels do not compile", built.log)
        if session.libraries == "own" and built.library is not None:
            checking.refuse_vendor_calls(vendor_calls([built.library]))
        return built

    def _start_reference(self) -> None:
        self._workers.tell_reference(Kind.SETUP, {"seed": checking.new_seed()})

    def _wait_for_reference(self) -> tuple[dict[str, Any], tuple[int, ...]]:
        frame = self._workers.hear_reference()
        self.report = replace(self.report, environment=frame.body["environment"])
        return frame.body, frame.fds

    def _load(
        self, sealed: Sealed, built: BuildResult, shared: dict[str, Any], fds: tuple[int, ...], *, timed: bool
    ) -> None:
        session = self._session
        setup = {
            "target": session.target,
            "precision": session.effective_precision,
            "output_lifetime": session.output_lifetime,
            "shared": shared,
        }
        self._workers.setup_candidate(setup, fds)
        if timed and session.target == "cuda":
            self._idle = idle.calibrate(timing.Timer(self._workers, None, session.target).idle_turn)
        library = ""
        if built.library is not None:
            library = str(sealed.folder / built.library.name)
            shutil.copyfile(built.library, library)
        load = {"library": library, "style": built.style, "source": str(sealed.module)}
        builds = _BUILDS_ITSELF in sealed.module.read_bytes()
        limit_s = max(session.call_timeout_s, session.build_timeout_s) if builds else session.call_timeout_s
        self._workers.ask_candidate(Kind.LOAD, load, limit_s=limit_s)

    def _memory(self) -> None:
        peaks = {"eager": self._workers.ask_reference(Kind.MEMORY, {"side": "eager"})["bytes"]}
        claimed = self._workers.ask_candidate(Kind.MEMORY).get("bytes")
        if isinstance(claimed, int):
            peaks["submission"] = claimed
        self.report = replace(self.report, peak_memory_bytes=peaks)

    def _time(self, checker: Checker | None) -> None:
        if checker is None:
            self._workers.ask_reference(Kind.DRAW, {"variant": "native", "seed": checking.new_seed()})
            self._workers.ask_reference(Kind.EXPECT, {"variant": "twin"})
        if self._workers.turns is not None:
            # What torch.compile builds must not be slowed or touched meanwhile.
            self._workers.turns.stop_submission()
        shared = self.report.final and self.report.isolation == "shared-uid"
        compiled = self._workers.ask_reference(Kind.WARM, {"fresh_in": self._own_folder if shared else None})
        sides = ["eager"] + (["compile"] if compiled["ok"] else []) + (["submission"] if checker else [])
        headline = "compile" if compiled["ok"] else "eager"
        timer = timing.Timer(self._workers, checker, self._session.target, self._idle)
        effort = timing.FINAL if self.report.final else timing.IN_LOOP
        found = timer.measure(sides, headline, effort)
        notes = list(self.report.notes) + found.notes
        if not compiled["ok"]:
            notes.append(f"torch.compile cannot run the operator, eager is the baseline: {compiled['reason']}")
        latencies = {side: latency(spans) for side, spans in found.spans().items()}
        self.report = replace(self.report, latency_ms=latencies, headline=headline, notes=notes)
        self._remember()
        if checker is not None:
            self._decide(found, headline)

    def _explain(self, *, operations: bool = False, record: bool = False) -> None:
        """Say where the time goes, when all that counts is measured: nothing here changes a status."""
        self.report = explaining.explain(
            self._workers, self.report, self._kernels, operations=operations, record=record
        )

    def _remember(self) -> None:
        """Keep the baselines' times, by what they depend on."""
        environment = self.report.environment
        key = ", ".join(f"{name} {environment[name]}" for name in sorted(environment))
        medians = {side: time.median for side, time in self.report.latency_ms.items() if side != SUBMISSION}
        self._session.remember_baselines(key, {"latency_ms": medians, "headline": self.report.headline})

    def _decide(self, found: Measured, headline: str) -> None:
        seed = checking.new_seed()
        spans = found.spans()
        mine = spans.pop(SUBMISSION)
        ratios = {side: ratio_interval(log_ratios(mine, its), seed) for side, its in spans.items()}
        status = verdict.status_of(ratios[headline], final=self.report.final, fastest=found.fastest(headline))
        self.report = replace(
            self.report,
            status=status,
            reason=verdict.reason_of(status, ratios[headline], headline),
            speedup={side: inverse(ratio) for side, ratio in ratios.items()},
        )


def empty_report(command: Command, session: Session, *, final: bool, nonce: str) -> Report:
    """A report of what is known before anything ran."""
    return Report(
        command,
        "inconclusive",
        final=final,
        nonce=nonce,
        target=session.target,
        rules={
            "precision": session.effective_precision,
            "libraries": session.libraries,
            "output_lifetime": session.output_lifetime,
            "baseline": "torch.compile default mode",
            "tolerance": compare.RULE,
        },
    )
