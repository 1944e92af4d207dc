"""Builds a submission's kernels into one shared library, incrementally.

A build directory holds sealed copies of the sources, object files with what they were made from, and the last few
libraries by content. It belongs to one build at a time (flock); a library handed out is not changed by later builds.
"""

import contextlib
import dataclasses
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from cuda_agent_judge.compiling import (
    LINK,
    BuildTimeout,
    Finished,
    Job,
    error_lines,
    run_all,
    shortened,
    unwritable,
    without_chatter,
)
from cuda_agent_judge.flocks import locked
from cuda_agent_judge.isolation import Identity, lend, take_back
from cuda_agent_judge.objects import ObjectStore, file_sha256
from cuda_agent_judge.ptxas import CompiledKernel, read_ptxas
from cuda_agent_judge.sources import KERNELS, SourceFault, Submission, read_submission, write_if_changed
from cuda_agent_judge.toolchain import Style, Target, Toolchain, ToolchainFault, build_environment, find_toolchain

BINDING_FILES = ("binding.cpp", "binding_registry.h")
LIBRARY = "cuda_extension.so"
KEPT_LIBRARIES = 4
_TEMPLATE = Path(__file__).resolve().parent.parent / "workspace"
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_STABLE = re.compile(r"\bREGISTER_KERNEL\s*\(")
_PUBLISHED = re.compile(r"\bREGISTER_BINDING\s*\(")
_PYBIND = re.compile(r"\bPYBIND11_MODULE\s*\(\s*(\w+)")
_UNRESOLVED = re.compile(r"undefined reference to [`'\"](.+?)['\"]\s*$", re.MULTILINE)
_FOUND_AT_LOAD = re.compile(r"(GOMP_|omp_|aoti_torch_|torch_|_?Py)")


@dataclass(frozen=True)
class BuildResult:
    """How a build ended."""

    ok: bool
    extension: Path | None
    """`cuda_extension.so`; None when it failed or there is nothing to build."""
    style: Style
    """How to load it: a `stable` library by torch.ops.load_library, a `pybind` one as the module itself."""
    seconds: float
    log: str
    """For the model: error lines first; on success warnings and what ptxas says of registers and shared memory."""
    reason: str = ""
    """One sentence; "" when it is ok."""
    timed_out: bool = False
    kernels: tuple[CompiledKernel, ...] = ()
    """What ptxas says of each, on `cuda`."""


class BuildFault(Exception):
    """The submission cannot be built; the text is one sentence, `log` says more."""

    def __init__(self, reason: str, log: str = "") -> None:
        super().__init__(reason)
        self.log = log or reason


def build(
    workspace: Path,
    out_dir: Path,
    *,
    target: Target,
    clean: bool = False,
    timeout_s: float = 600,
    template: Path = _TEMPLATE,
    arch: str | None = None,
    identity: Identity | None = None,
    place: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
) -> BuildResult:
    """Build what stands in `workspace`; never raises for a faulty submission or a missing compiler.

    `template` holds the binding files that are built (default: the workspace template beside this package). `clean`
    forgets everything in `out_dir`. `arch` ("90a") replaces the question to the GPU. Compilers run under
    `identity` where there is one; it needs no way to `out_dir`, but has to reach the compilers and torch. They run
    within `place`, and waiting for that is no time of the build.
    """
    started = time.monotonic()
    try:
        submission = read_submission(workspace)
        style = _style(submission, target)
    except (SourceFault, BuildFault) as fault:
        return BuildResult(False, None, "none", time.monotonic() - started, str(fault), str(fault))
    if style == "none":
        return BuildResult(True, None, style, time.monotonic() - started, f"no sources in {KERNELS}/: nothing to build")
    note = _binding_note(workspace, template)
    outcome, waits = BuildResult(False, None, style, 0.0, ""), list[float]()
    try:
        toolchain = find_toolchain(target, style, arch)
        made = _Build(submission, style, toolchain, template, out_dir, started + timeout_s, identity, place, waits)
        with _locked(out_dir, made.deadline):
            library, log, kernels = made.run(clean)
        outcome = dataclasses.replace(outcome, ok=True, extension=library, log=note + log, kernels=tuple(kernels))
    except BuildTimeout as timeout:
        reason = str(timeout) or f"the build took longer than {timeout_s:g} s and was stopped: make the sources smaller"
        outcome = dataclasses.replace(outcome, log=reason, reason=reason, timed_out=True)
    except BuildFault as fault:
        outcome = dataclasses.replace(outcome, log=note + fault.log, reason=str(fault))
    except (SourceFault, ToolchainFault, OSError) as fault:
        reason = unwritable(out_dir, fault) if isinstance(fault, OSError) else str(fault)
        outcome = dataclasses.replace(outcome, log=reason, reason=reason)
    return dataclasses.replace(outcome, seconds=time.monotonic() - started - sum(waits))


@dataclass(frozen=True)
class _Build:
    submission: Submission
    style: Style
    toolchain: Toolchain
    template: Path
    out_dir: Path
    deadline: float
    identity: Identity | None
    place: Callable[[], AbstractContextManager[None]]
    waits: list[float]  # seconds for a place, which put the deadline off

    def run(self, clean: bool) -> tuple[Path, str, list[CompiledKernel]]:
        """The library, the log and the kernels.

        Raises:
            BuildFault: it does not compile or link.
            BuildTimeout: it took too long.
        """
        if clean:
            for name in ("sources", "objects", "lib"):
                shutil.rmtree(self.out_dir / name, ignore_errors=True)
        sealed = self.out_dir / "sources"
        sources = self._seal(sealed)
        store = ObjectStore(self.out_dir / "objects", sealed, self.toolchain, self.style)
        lend(store.new, self.identity)
        stale = [source for source in sources if not store.is_current(source)]
        finished = self._run([store.job(source) for source in stale], sealed)
        for done in finished:
            if done.code == 0:
                store.accept(done.job.name, done.output)
        store.save()
        self._check(finished, stale)
        for source in sources:
            if bad := store.foreign_header(source):
                raise BuildFault(f"{source} includes {bad}, which is no part of the submission: put it into {KERNELS}/")
        library = self._link([store.object_file(source) for source in sources], sealed)
        said = [f"{source}:\n{text}" for source in sources if (text := without_chatter(store.output(source)))]
        summary = f"built {LIBRARY}: {len(stale)} compiled, {len(sources) - len(stale)} up to date"
        kernels = [kernel for source in sources for kernel in read_ptxas(store.output(source))]
        return library, shortened("\n".join([summary, *said])), kernels

    def _seal(self, sealed: Path) -> list[str]:
        """Copy what is built; returns the sources, by their path in the copy."""
        kernels = {name: content for name, content in self.submission.files.items() if name.startswith(f"{KERNELS}/")}
        Submission(kernels).write(sealed)
        for name in BINDING_FILES:
            write_if_changed(sealed / name, (self.template / name).read_bytes())
        own_module = any(_PYBIND.search(text) for text in _texts(self.submission).values())
        return [*([] if own_module else ["binding.cpp"]), *kernel_sources(self.submission)]

    def _run(self, jobs: list[Job], cwd: Path) -> list[Finished]:
        scratch = self.out_dir / "tmp"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        lend(scratch, self.identity)
        env, came = build_environment(Path(os.path.relpath(scratch, cwd))), time.monotonic()
        try:
            with self.place() if jobs else contextlib.nullcontext():
                self.waits.append(time.monotonic() - came)
                end = self.deadline + sum(self.waits)
                return run_all(jobs, cwd=cwd, env=env, scratch=scratch, deadline=end, identity=self.identity)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _check(self, finished: list[Finished], order: list[str]) -> None:
        failed = sorted((done for done in finished if done.code), key=lambda done: order.index(done.job.name))
        if not failed:
            return
        logs = [f"{done.job.name}:\n{shortened(done.output.strip(), 12_000 // len(failed) + 1000)}" for done in failed]
        reason = failed[0].reason
        # The reason stands above and has the first line already.
        errors = [line for done in failed for line in error_lines(done.output)[:3] if line[:300] not in reason]
        raise BuildFault(reason, shortened("\n".join([reason, *errors, "", *logs])))

    def _link(self, objects: list[Path], sealed: Path) -> Path:
        near = [Path(os.path.relpath(path, sealed)) for path in objects]
        command = self.toolchain.link_command(near, Path(LIBRARY), self.style)
        key = file_sha256(*objects, extra="\0".join(command))[:20]
        library = self.out_dir / "lib" / key / LIBRARY
        if library.exists():
            library.parent.touch()
            return library
        temporary = self.out_dir / "lib" / ".new" / LIBRARY
        shutil.rmtree(temporary.parent, ignore_errors=True)
        temporary.parent.mkdir(parents=True)
        lend(temporary.parent, self.identity)
        into = Path(os.path.relpath(temporary, sealed))
        job = Job(LINK, tuple(self.toolchain.link_command(near, into, self.style)))
        [done] = self._run([job], sealed)
        if done.code:
            raise BuildFault(done.reason, shortened(done.output))
        missing = [name for name in _UNRESOLVED.findall(done.output) if not _FOUND_AT_LOAD.match(name)]
        if missing:
            raise BuildFault(
                f"no source defines {missing[0]!r}, which is called: define it, with the same name, types and "
                '`extern "C"` on both sides',
                "\n".join(f"error: undefined reference to {name!r}" for name in dict.fromkeys(missing)),
            )
        take_back(temporary)
        library.parent.mkdir(parents=True)
        temporary.replace(library)
        self._prune()
        return library

    def _prune(self) -> None:
        kept = sorted((self.out_dir / "lib").glob("[0-9a-f]*"), key=lambda folder: folder.stat().st_mtime_ns)
        for folder in kept[:-KEPT_LIBRARIES]:
            shutil.rmtree(folder, ignore_errors=True)


def kernel_sources(submission: Submission) -> list[str]:
    """The files that are compiled: kernels/*.cpp and kernels/*.cu."""
    return [name for name in submission.files if re.fullmatch(rf"{KERNELS}/[^/]+\.(cpp|cu)", name)]


def _style(submission: Submission, target: Target) -> Style:
    sources = kernel_sources(submission)
    for name in submission.files:
        if re.fullmatch(rf"{KERNELS}/[^/]+\.(cc|cxx|c|C)", name):
            raise BuildFault(f"{name} would not be built: name it .cpp")
    if target == "cpu" and (cuda := next((name for name in sources if name.endswith(".cu")), None)):
        raise BuildFault(f"{cuda} is CUDA, but the target is cpu: write it in C++ as {cuda.removesuffix('.cu')}.cpp")
    texts = _texts(submission)
    users = {
        word: [name for name, text in texts.items() if word.search(text)] for word in (_STABLE, _PUBLISHED, _PYBIND)
    }
    used = [names[0] for names in users.values() if names]
    if len(used) > 1:
        raise BuildFault(
            f"{used[0]} and {used[1]} register their functions in different ways: use one of REGISTER_KERNEL, "
            "REGISTER_BINDING and PYBIND11_MODULE in all files"
        )
    for name in users[_PYBIND]:
        module = _PYBIND.search(texts[name])
        if module and module[1] not in ("TORCH_EXTENSION_NAME", "cuda_extension"):
            raise BuildFault(f"{name} names its module {module[1]}: write PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)")
    if not sources:
        return "none"
    return "pybind" if users[_PUBLISHED] or users[_PYBIND] else "stable"


def _texts(submission: Submission) -> dict[str, str]:
    """The sources without their comments."""
    return {
        name: _COMMENT.sub(" ", submission.files[name].decode("utf-8", "replace"))
        for name in kernel_sources(submission)
    }


def _binding_note(workspace: Path, template: Path) -> str:
    changed = [
        name
        for name in BINDING_FILES
        if (path := workspace / name).is_file() and path.read_bytes() != (template / name).read_bytes()
    ]
    return "".join(
        f"note: {name} in the workspace is not read, the judge builds with its own copy\n" for name in changed
    )


@contextlib.contextmanager
def _locked(out_dir: Path, deadline: float) -> Iterator[None]:
    """Hold the build directory; the lock dies with its holder.

    Raises:
        BuildTimeout: another build holds it until `deadline`.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    with open(out_dir / ".lock", "w") as lock:
        if not locked(lock.fileno(), deadline):
            raise BuildTimeout("another build has held the build directory all the time: try again")
        yield
