"""The judge role: draws seeds, holds the clock and decides; it runs no tensor operation and no submission."""

import contextlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from cuda_agent_judge import battery, checking, effort, explaining, gpu, idle, timing, verdict
from cuda_agent_judge.build import BuildResult, build
from cuda_agent_judge.checking import Checker
from cuda_agent_judge.companions import watched_alone
from cuda_agent_judge.defences import Defences
from cuda_agent_judge.isolation import Identity
from cuda_agent_judge.phases import Phases
from cuda_agent_judge.processes import JudgeEnds, JudgeFault
from cuda_agent_judge.protocol import Kind
from cuda_agent_judge.report import Report, Status
from cuda_agent_judge.scoring import SUBMISSION, Measured
from cuda_agent_judge.session import Session
from cuda_agent_judge.slots import Slots
from cuda_agent_judge.statistics import inverse, latency, log_ratios, ratio_interval
from cuda_agent_judge.submission import Sealed
from cuda_agent_judge.symbols import vendor_calls
from cuda_agent_judge.workers import Refused, Workers

_BUILDS_ITSELF = b"cpp_extension"
"""In a model_new.py that has kernels built while it is imported (load_inline), for which it gets a build's time."""


class Judgement:
    """One command's way to its report."""

    def __init__(
        self,
        session: Session,
        report: Report,
        ends: JudgeEnds,
        builder: Identity | None,
        phases: Phases,
        defences: Defences,
        *,
        ipc: bool,
    ) -> None:
        """`builder` is who compiles; None is this process's own user. With `ipc` device memory is shared."""
        self._ipc = ipc
        self._session = session
        self.report = report
        self._ends = ends
        self._phases = phases
        self._workers = Workers(ends, session, phases, defences)
        self._defences = defences
        self._idle: list[int] = []
        self._own_folder = ""
        self._builder = builder
        self._known = explaining.Known()
        self._slots = Slots(session.target, session.locks)
        self._small = True
        """Whether another judgement's tensors fit into the device's memory beside this one's."""

    @property
    def accounted(self) -> Report:
        """The report, with what the command took of what it shares with others."""
        notes = self.report.notes + self._slots.notes
        return replace(self.report, held=self._slots.accounts, notes=notes)

    def baseline(self) -> None:
        """Time eager and torch.compile alone."""
        self._open_reference()
        self._opened()
        with self._on_device():
            self._set_up_reference()
            self._time(None)
            self.report = replace(self.report, status="measured", reason="eager and torch.compile were timed")
            self._explain(operations=True)

    def keep(self) -> None:
        """Have the baseline compiled, and the device's ceilings measured, for the machine's cache."""
        self._open_reference()
        self._opened()
        with self._on_device():
            self._set_up_reference()
            self._compiled(drawn=False)
            self._workers.ask_reference(Kind.APPRAISE, {"operations": False, "again": False})
            self.report = replace(self.report, status="measured", reason="the baseline is compiled")

    def submission(self, sealed: Sealed, *, timed: bool) -> None:
        """Build, check and (where asked) time a submission."""
        self._own_folder = str(sealed.folder)
        self._open_reference()
        built = self._build(sealed)
        self._opened()
        with self._on_device():
            self._judge(sealed, built, timed=timed)

    @contextlib.contextmanager
    def _on_device(self) -> Iterator[None]:
        """Have the device for oneself; whoever gets it next finds its memory free."""
        with self._slots.device.held():
            try:
                yield
            finally:
                self._workers.leave_device()

    def _judge(self, sealed: Sealed, built: BuildResult, *, timed: bool) -> None:
        shared, fds = self._set_up_reference()
        self._load(sealed, built, shared, fds, timed=timed)
        checker = Checker(self._workers, self._session, shared, self._defences)
        try:
            with self._phases.stage("battery"):
                checker.check(battery.FINAL if self.report.final else battery.IN_LOOP)
            with self._phases.stage("audit"):
                checker.audit()
            with self._phases.stage("screen"):
                degenerate = checker.degenerate()
            self.report = replace(self.report, status="correct", reason="every checked call was right")
            if timed:
                with self._phases.stage("memory"):
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
        with self._on_device(), self._phases.stage("analysis"):
            answer = self._workers.ask_reference(Kind.ANALYZE)
        found = Report.from_json(json.dumps(answer["report"]))
        reason = found.reason or "the operator was screened and traced"
        self.report = replace(found, reason=reason, nonce=self.report.nonce, rules=self.report.rules)

    def build_only(self, sealed: Sealed) -> None:
        """Compile and nothing else."""
        built = self._build(sealed)
        reason = "the extension is built" if built.extension else "there is nothing to build under kernels/"
        self.report = replace(self.report, status="compiled", reason=reason, details=built.log)

    def _build(self, sealed: Sealed) -> BuildResult:
        session = self._session
        out_dir = session.build_dir / ("final" if self.report.final else "loop")
        with self._phases.stage("build"):
            built = build(
                sealed.folder,
                out_dir,
                target=session.target,
                clean=self.report.final,
                timeout_s=session.build_timeout_s,
                identity=self._builder,
                place=self._slots.builds.held,
            )
        self._known = explaining.Known(built.kernels)
        self.report = replace(self.report, build_s=built.seconds)
        if not built.ok:
            status: Status = "timeout" if built.timed_out else "compile_error"
            raise Refused(status, built.reason or "the kernels do not compile", built.log)
        if session.libraries == "own" and built.extension is not None:
            checking.refuse_vendor_calls(vendor_calls([built.extension]))
        return built

    def _open_reference(self) -> None:
        """Have it made ready as far as that needs no turn on the device, while the submission is built."""
        self._workers.tell_reference(Kind.OPEN, {})

    def _opened(self) -> None:
        with self._phases.stage("opening"):
            self._workers.hear_reference()

    def _set_up_reference(self) -> tuple[dict[str, Any], tuple[int, ...]]:
        with self._phases.stage("reference"):
            self._workers.tell_reference(Kind.SETUP, {"seed": checking.new_seed(), "ipc": self._ipc})
            frame = self._workers.hear_reference()
        self._phases.under("reference", frame.body["phases"])
        environment = frame.body["environment"]
        if not gpu.same(self._slots.gpu, environment.get("gpu", "")):
            raise JudgeFault(f"the reference runs on {environment['gpu']}, and {self._slots.gpu} was to be used")
        self.report = replace(self.report, environment=environment, notes=[*self.report.notes, *frame.body["notes"]])
        self._small = frame.body["sets"] > 1
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
        with self._phases.stage("context"):
            self._workers.setup_candidate(setup, fds)
        if timed and session.target == "cuda":
            with self._phases.stage("calibration"):
                self._idle = idle.calibrate(timing.Timer(self._workers, None, session.target, self._defences).idle_turn)
        library = ""
        if built.extension is not None:
            library = str(sealed.folder / built.extension.name)
            shutil.copyfile(built.extension, library)
        load = {"library": library, "style": built.style, "source": str(sealed.module)}
        builds = _BUILDS_ITSELF in sealed.module.read_bytes()
        if not builds:
            with self._phases.stage("import"):
                self._workers.ask_candidate(Kind.LOAD, load)
            return
        with self._slots.device.lent(), self._slots.builds.held(), self._phases.stage("import"):
            limit_s = max(session.call_timeout_s, session.build_timeout_s)
            self._workers.ask_candidate(Kind.LOAD, load, limit_s=limit_s)

    def _memory(self) -> None:
        peaks = {"eager": self._workers.ask_reference(Kind.MEMORY, {"side": "eager"})["bytes"]}
        claimed = self._workers.ask_candidate(Kind.MEMORY).get("bytes")
        if isinstance(claimed, int):
            peaks["submission"] = claimed
        self.report = replace(self.report, peak_memory_bytes=peaks)

    def _time(self, checker: Checker | None) -> None:
        compiled = self._compiled(drawn=checker is not None)
        sides = ["eager"] + (["compile"] if compiled["ok"] else []) + (["submission"] if checker else [])
        headline = "compile" if compiled["ok"] else "eager"
        timer = timing.Timer(self._workers, checker, self._session.target, self._defences, self._idle)
        with watched_alone(self._slots.gpu, self._ends.pids) as watch, self._phases.stage("timing"):
            found = timer.measure(sides, headline, effort.FINAL if self.report.final else effort.IN_LOOP)
        notes = list(self.report.notes) + found.notes + watch.notes
        if not compiled["ok"]:
            notes.append(f"torch.compile cannot run the operator, eager is the baseline: {compiled['reason']}")
        if self._session.target == "cuda":
            self._known = replace(self._known, enqueue_us=found.enqueue_us(), in_a_row_us=found.in_a_row_us())
        latencies = {side: latency(spans) for side, spans in found.spans().items()}
        self.report = replace(
            self.report, latency_ms=latencies, headline=headline, notes=notes, device_state=watch.states
        )
        self._remember()
        if checker is not None:
            self._decide(found, headline)

    def _compiled(self, *, drawn: bool) -> dict[str, Any]:
        """Have the compiled baseline ready, on inputs that were `drawn` already or are now."""
        if not drawn:
            self._workers.ask_reference(Kind.DRAW, {"variant": "native", "seed": checking.new_seed()})
            self._workers.ask_reference(Kind.EXPECT, {"variant": "twin"})
        if self._workers.turns is not None:
            # What torch.compile builds must not be slowed or touched meanwhile.
            self._workers.turns.stop_submission()
        shared = self.report.final and self.report.isolation == "shared-uid"
        with self._aside(), self._slots.builds.held(), self._phases.stage("compile baseline"):
            self._workers.ask_reference(Kind.COMPILE, {"fresh_in": self._own_folder if shared else None})
        with self._phases.stage("baseline"):
            compiled = self._workers.ask_reference(Kind.WARM)
        self.report = replace(self.report, notes=[*self.report.notes, *compiled["notes"]])
        return compiled

    def _aside(self) -> contextlib.AbstractContextManager[None]:
        """Let others have the device meanwhile, unless what lies in its memory leaves no room for them."""
        return self._slots.device.lent() if self._small else contextlib.nullcontext()

    def _explain(self, *, operations: bool = False, record: bool = False) -> None:
        """Say where the time goes, when all that counts is measured: nothing here changes a status."""
        if record and self._session.target == "cuda":
            with self._phases.stage("profiler"):
                failed = explaining.start_profiler(self._workers, self._aside())
            if failed:
                self.report = replace(self.report, notes=[*self.report.notes, failed])
                return
        with self._phases.stage("explanation"):
            known, workers = self._known, self._workers
            self.report = explaining.explain(workers, self.report, known, operations=operations, record=record)

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
        status = verdict.status_of(ratios[headline], found.against(headline), final=self.report.final)
        self.report = replace(
            self.report,
            status=status,
            reason=verdict.reason_of(status, ratios[headline], headline),
            speedup={side: inverse(ratio) for side, ratio in ratios.items()},
        )
