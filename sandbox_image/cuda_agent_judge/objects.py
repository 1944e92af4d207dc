"""Object files of a build directory and what each was made from: command, source and every header the compiler read."""

import hashlib
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

from cuda_agent_judge.compiling import Job
from cuda_agent_judge.isolation import take_back
from cuda_agent_judge.output import write_whole
from cuda_agent_judge.toolchain import Style, Toolchain

_STATE = "state.json"
_SOURCE = re.compile(r"\.(cpp|cu|py)$")
# Where a workspace's owner can put headers besides the workspace itself.
_WRITABLE_BY_ALL = tuple(Path(folder) for folder in ("/tmp", "/var/tmp", "/dev/shm"))


class ObjectStore:
    """The object files of one build directory; sources are named by their path under `sealed`."""

    def __init__(self, folder: Path, sealed: Path, toolchain: Toolchain, style: Style) -> None:
        self._folder = folder
        self._sealed = sealed
        self._toolchain = toolchain
        self._style: Style = style
        self.new = folder / "new"
        """Where compilers put their object files until they are accepted."""
        shutil.rmtree(self.new, ignore_errors=True)  # what an earlier build left may be another user's
        self.new.mkdir(parents=True)
        self._state = _read_state(folder / _STATE)
        self._fingerprints: dict[Path, str] = {}
        # A header that appears may hide another of its name: the compiler's list of what it read cannot know that.
        headers = [p.relative_to(sealed).as_posix() for p in sealed.rglob("*") if not _SOURCE.search(p.name)]
        compilers = [toolchain.cxx, *([toolchain.cuda.nvcc] if toolchain.cuda else [])]
        self._common = "\0".join([*sorted(headers), *(self._fingerprint(Path(path).resolve()) for path in compilers)])

    def object_file(self, source: str) -> Path:
        """Where its object file stands."""
        return self._folder / (source.replace("/", "__") + ".o")

    def output(self, source: str) -> str:
        """What the compiler said when the current object file was made."""
        return str(self._state[source]["output"])

    def job(self, source: str) -> Job:
        """The command that makes its object file (in a folder of its own until `accept`)."""
        return Job(source, tuple(self._command(source)))

    def is_current(self, source: str) -> bool:
        """Whether the object file is what this command would make of these files."""
        made = self._state.get(source)
        if made is None or made["command"] != self._command_hash(source):
            return False
        if self._fingerprint(self.object_file(source)) != made["object"]:
            return False
        return all(self._fingerprint(Path(path)) == print_ for path, print_ in made["read"].items())

    def accept(self, source: str, output: str) -> None:
        """Take over the object file that the job has made."""
        new = self._new(source)
        for path in (new, new.with_suffix(".d")):
            take_back(path)
        read = {str(path): self._fingerprint(path) for path in _dependencies(new.with_suffix(".d"), self._sealed)}
        new.replace(self.object_file(source))
        self._fingerprints.pop(self.object_file(source), None)
        self._state[source] = {
            "command": self._command_hash(source),
            "object": self._fingerprint(self.object_file(source)),
            "read": read,
            "output": output[:100_000],
        }

    def save(self) -> None:
        """Write down what was accepted."""
        write_whole(self._folder / _STATE, json.dumps(self._state).encode())

    def foreign_header(self, source: str) -> str | None:
        """A header it includes that is neither part of the submission nor of the system, if there is one."""
        trusted = [self._sealed.resolve(), *self._toolchain.trusted_folders()]
        for path in map(Path, self._state[source]["read"]):
            if any(path.is_relative_to(folder) for folder in trusted):
                continue
            if any(path.is_relative_to(folder) for folder in _WRITABLE_BY_ALL) or _owner_differs(path):
                return str(path)
        return None

    def _new(self, source: str) -> Path:
        return self.new / self.object_file(source).name

    def _command(self, source: str) -> list[str]:
        # Relative: whoever compiles may stand in the sources without being able to come there.
        new = Path(os.path.relpath(self._new(source), self._sealed))
        return self._toolchain.compile_command(source, new, new.with_suffix(".d"), self._style)

    def _command_hash(self, source: str) -> str:
        text = "\0".join([*self._command(source), self._common])
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()

    def _fingerprint(self, path: Path) -> str:
        """Content where the submission or the build writes, size and time for the thousands of system headers."""
        known = self._fingerprints.get(path)
        if known is None:
            known = self._fingerprints[path] = self._look_at(path)
        return known

    def _look_at(self, path: Path) -> str:
        try:
            if path.is_relative_to(self._sealed.resolve()) or path.is_relative_to(self._folder):
                return file_sha256(path)
            status = path.stat()
        except OSError:
            return "missing"
        return f"{status.st_size}:{status.st_mtime_ns}"


def file_sha256(*paths: Path, extra: str = "") -> str:
    """Hash over the contents of files and a text."""
    digest = hashlib.sha256(extra.encode("utf-8", "surrogateescape"))
    for path in paths:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _read_state(path: Path) -> dict[str, dict[str, Any]]:
    try:
        state = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def _dependencies(depfile: Path, cwd: Path) -> list[Path]:
    """The files named in a make rule, resolved."""
    text = depfile.read_text(errors="surrogateescape").replace("\\\n", " ")
    _, _, names = text.partition(": ")
    words = re.findall(r"(?:\\.|[^\s\\])+", names)
    return [Path(os.path.realpath(cwd / re.sub(r"\\(.)", r"\1", word).replace("$$", "$"))) for word in words]


def _owner_differs(path: Path) -> bool:
    """Whether somebody else than root and the judge's user could have written it."""
    try:
        return path.stat().st_uid not in (0, os.getuid())
    except OSError:
        return True
