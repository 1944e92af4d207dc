"""What the judges of this machine keep from run to run: torch.compile's code by operator, and what the device reaches.

Whoever can write there decides how fast a baseline is and runs code in the reference worker. So nothing is taken from a
cache that a submission or a model's command could have written to, and nothing is put there where they might have had a
hand in it (`opened`). A folder is put in place by one rename and never changed; it is copied to be used. Standard
library only.
"""

import contextlib
import errno
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cuda_agent_judge import isolation
from cuda_agent_judge.cache_key import Keys, Surroundings, keys_of
from cuda_agent_judge.flocks import locked
from cuda_agent_judge.guarded import Untrusted, check_file, check_folder, check_levels, copy_tree, is_read_only, size_of
from cuda_agent_judge.output import UNFINISHED, write_whole
from cuda_agent_judge.session import Session

LIMIT_BYTES = 1 << 30
"""Of all that is kept; what was used last the longest ago goes first."""
LARGEST_BYTES = 256 << 20
"""Of what is kept of one operator."""
_DOOR_S = 5.0
_ABANDONED_S = 3600.0
"""A folder that nobody finished for so long was begun by a judge that was killed."""
_KNOWN_S = 7 * 86400.0
"""What was measured on a machine that may have been busy then does not count for ever."""
_CODE, _ABOUT, _DOOR = "inductor", "about.json", "door"
_GROUP = "__grp__"
"""How Triton calls the files in which it writes absolute paths down."""
_UNFINISHED = (UNFINISHED, ".old-")


@dataclass
class MachineCache:
    """The cache of this machine."""

    path: Path
    keys: Keys
    writable: bool
    """Whether something may be put there."""
    limit_bytes: int = LIMIT_BYTES
    notes: list[str] = field(default_factory=list)
    """What a reader must know."""

    @property
    def home(self) -> Path:
        """The operator's folder, whether it is there or not."""
        return self.path / self.keys.operator

    @property
    def has_code(self) -> bool:
        """Whether something is kept of the operator; it counts as used then."""
        if self.writable:
            with contextlib.suppress(OSError):
                os.utime(self.home)
        return (self.home / _ABOUT).is_file()

    def take(self, into: Path) -> bool:
        """Copy the operator's code to `into`, which is not there yet; says whether there was any."""
        if into.exists() or not self.has_code:
            return False
        new = into.with_name(f"{into.name}.{os.getpid()}")
        try:
            with self._standing() as home:
                check_file(home / _ABOUT)
                about = json.loads((home / _ABOUT).read_bytes())
                new.parent.mkdir(parents=True, exist_ok=True)
                copy_tree(home / _CODE, new, LARGEST_BYTES)
                _relocate(new, str(about["made_in"]), str(into))
            new.rename(into)
        except FileNotFoundError:
            return False
        except (OSError, ValueError, KeyError, TypeError, Untrusted) as fault:
            self._note("used", fault)
            return False
        finally:
            shutil.rmtree(new, ignore_errors=True)
        return True

    @contextlib.contextmanager
    def _standing(self) -> Iterator[Path]:
        """The operator's folder for the length of a `with` block.

        Raises:
            FileNotFoundError: it was removed meanwhile, and what was read of it may have holes.
            Untrusted: it is not this user's alone.
        """
        check_folder(self.home)
        held = os.open(self.home, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            yield self.home
            if not os.path.samestat(os.fstat(held), os.lstat(self.home)):
                raise FileNotFoundError
        finally:
            os.close(held)

    def put(self, code: Path) -> None:
        """Keep the operator's code, in the place of what was kept of it."""
        if not self.writable:
            return
        new = None
        try:
            with self._door():
                new = Path(tempfile.mkdtemp(prefix=_UNFINISHED[0], dir=self.path))
                copy_tree(code, new / _CODE, LARGEST_BYTES)
                (new / _ABOUT).write_text(json.dumps({"made_in": str(code)}) + "\n")
                self._remove(self.home)
                new.rename(self.home)
                self._shrink()
        except (OSError, Untrusted) as fault:
            self._note("written to", fault)
        finally:
            if new is not None:
                shutil.rmtree(new, ignore_errors=True)

    def known_of_device(self) -> Any:
        """What was noted of this device, None where nothing was of late."""
        with contextlib.suppress(OSError, ValueError, Untrusted):
            check_file(self._of_device)
            if time.time() - os.lstat(self._of_device).st_mtime > _KNOWN_S:
                return None
            return json.loads(self._of_device.read_bytes())
        return None

    def note_of_device(self, value: Any) -> None:
        """Note something of this device, in the place of what was noted."""
        if not self.writable:
            return
        with contextlib.suppress(OSError):
            write_whole(self._of_device, json.dumps(value).encode(), mode=0o600)

    @property
    def _of_device(self) -> Path:
        return self.path / f"{self.keys.device}.json"

    def _note(self, done: str, fault: Exception) -> None:
        why = (fault.strerror or str(fault)) if isinstance(fault, OSError) else str(fault)
        self.notes.append(f"the machine's cache was not {done}: {why}")

    @contextlib.contextmanager
    def _door(self) -> Iterator[None]:
        """Be the only one that changes what is there.

        Raises:
            OSError: others are at it, or it cannot be locked.
        """
        door = os.open(self.path / _DOOR, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            if not locked(door, time.monotonic() + _DOOR_S):
                raise OSError(errno.EBUSY, "others were writing to it all the time")
            yield
        finally:
            os.close(door)

    def _remove(self, folder: Path) -> None:
        """Take a folder out of its place first: whoever copies it at the moment sees that it is gone."""
        aside = folder.with_name(f"{_UNFINISHED[1]}{folder.name}.{os.getpid()}")
        with contextlib.suppress(FileNotFoundError):
            folder.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)

    def _shrink(self) -> None:
        """Remove what was used last the longest ago until the rest is within the limit, and what nobody finished."""
        entries = list(os.scandir(self.path))
        for entry in entries:
            if entry.name.startswith(_UNFINISHED) and _is_abandoned(entry):
                _discard(entry)
        folders = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
        kept = [entry for entry in folders if not entry.name.startswith(_UNFINISHED)]
        total = 0
        for entry in sorted(kept, key=lambda entry: entry.stat().st_mtime_ns, reverse=True):
            total += size_of(Path(entry.path))
            if total > self.limit_bytes and entry.name != self.keys.operator:
                self._remove(Path(entry.path))


def _is_abandoned(entry: os.DirEntry[str]) -> bool:
    try:
        return time.time() - entry.stat(follow_symlinks=False).st_mtime > _ABANDONED_S
    except FileNotFoundError:  # it was finished just now
        return False


def _discard(entry: os.DirEntry[str]) -> None:
    if entry.is_dir(follow_symlinks=False):
        shutil.rmtree(entry.path, ignore_errors=True)
    else:
        Path(entry.path).unlink(missing_ok=True)


def opened(session: Session, *, alone: bool = False) -> tuple[MachineCache | None, str]:
    """The cache that the session names, and why it is not used although it names one.

    It may be written to where a submission has another uid than the judge, and the model has, too, or where there is no
    submission (`alone`). Where it is mounted read-only nobody in here can have written to it, and it is only read.
    """
    if session.cache is None:
        return None, ""
    try:
        check_levels(session.cache)
        read_only = is_read_only(session.cache)
        if not (read_only or alone or _are_apart(session)):
            raise Untrusted("what runs under the judge's own user could write to it")
        around = Surroundings.of(session.target)
        if not around.device:
            raise Untrusted("the driver does not name the GPU")
    except (Untrusted, OSError) as fault:
        return None, f"the machine's cache is not used: {fault}"
    # On a GPU others compute while the baseline is compiled and tuned: what comes of that is not for later runs.
    writable = not read_only and (alone or session.target == "cpu")
    return MachineCache(session.cache, keys_of(session, around), writable=writable), ""


def is_kept(session: Session) -> bool:
    """Whether there is nothing to do for a judge that would only fill the cache.

    Found out in another process: asking the driver makes this one unfit to fork whoever uses the GPU.
    """
    pid = os.fork()
    if pid == 0:
        done = False
        try:
            cache, _ = opened(session, alone=True)
            done = cache is None or cache.has_code or not cache.writable
        finally:
            os._exit(0 if done else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _are_apart(session: Session) -> bool:
    """Whether neither the model's commands nor submissions have this uid: a submission's copy lies in such a folder."""
    if session.model_shares_uid:
        return False
    with tempfile.TemporaryDirectory(prefix="cuda-agent-judge-") as folder:
        os.chmod(folder, 0o755)
        return isolation.candidate_identity([Path(folder)]) is not None


def _relocate(code: Path, made_in: str, used_in: str) -> None:
    """Write the new place into the files in which Triton notes where others are."""
    for file in code.rglob(f"{_GROUP}*"):
        file.write_text(file.read_text().replace(f"{made_in}/", f"{used_in}/"))
