r"""Run one command in the container for the host, as a given user. A program of its own: `python3 run_command.py`.

It is what every `docker exec` of the host starts, as root, which the command's user can neither signal nor read: what
runs under another uid cannot outlive its command, forge its end or answer in its place. The host writes to stdin

    <nonce> <uid> <length of request> <length of stdin>\n   request (see supervisor.py)   the command's stdin

and keeps the connection open; when it closes, the command is killed. stdout and stderr are the command's own. When
everything it started is dead, both get a last line, `\0cuda-agent <nonce> ANSWER\n`. ANSWER is the supervisor's, and
behind it the limits of the container that were met meanwhile: `oom`, `pids`, `full PATH`.

`run_command.py sweep` first kills what was left by commands whose run_command.py was killed itself.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import supervisor

MOUNTS = ("/workspace", "/home/sandbox", "/tmp", "/var/lib/cuda-agent", "/var/lib/cuda-agent-tmp", "/dev/shm")
"""What can be written to, each of a limited size."""
COUNTERS = {
    "oom": (
        ("/sys/fs/cgroup/memory.events", "oom_kill"),
        ("/sys/fs/cgroup/memory/memory.oom_control", "oom_kill"),
    ),
    "pids": (("/sys/fs/cgroup/pids.events", "max"), ("/sys/fs/cgroup/pids/pids.events", "max")),
}
"""Where the kernel counts processes killed for memory and forks refused: in cgroups of version 2 and of version 1."""
FULL_BELOW = 1 << 16
"""A file system with fewer bytes left is called full."""
OOM_SCORES = {True: 100, False: 500}
"""By whether it is root's. A command's process is killed for memory before this one and the container's first."""


def main() -> None:
    """Serve one request."""
    if sys.argv[1:] == ["sweep"]:
        sweep()
    control, streams = os.dup(0), (os.dup(1), os.dup(2))
    nonce, uid, request, stdin = _receive(control)
    os.dup2(_as_file(stdin), 0)
    before = {name: _count(name) for name in COUNTERS}
    answer = supervisor.supervise(control, request, lambda: _become(uid))
    met = [name.encode() for name in COUNTERS if _count(name) > before[name]]
    met += [b"full " + path.encode() for path in MOUNTS if _is_full(path)]
    for stream in streams:
        _write(stream, b"\0cuda-agent %s %s\n" % (nonce, b";".join([answer, *met])))


def sweep() -> None:
    """Kill every process that was adopted by the container's first one: its own child, which keeps it up, stays."""
    supervisor.kill_below(1, spared=_keeper())


def _keeper() -> int:
    """The main process: the oldest child of the first one."""
    born = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if fields[1] == b"1":
            born[int(fields[19])] = int(entry)
    return born[min(born)] if born else 0


def _receive(control: int) -> tuple[bytes, int, supervisor.Request, bytes]:
    head = b""
    while not head.endswith(b"\n"):
        head += _exactly(control, 1)
    nonce, uid, length, size = head.split()
    return nonce, int(uid), supervisor.Request(_exactly(control, int(length))), _exactly(control, int(size))


def _exactly(control: int, size: int) -> bytes:
    chunks, missing = [], size
    while missing > 0:
        chunk = os.read(control, min(missing, 1 << 20))
        if not chunk:
            os._exit(1)  # the host is gone before anything began
        chunks.append(chunk)
        missing -= len(chunk)
    return b"".join(chunks)


def _as_file(data: bytes) -> int:
    """The command's stdin, whole before it starts, so that nobody has to feed it."""
    if not data:
        return os.open(os.devnull, os.O_RDONLY)
    file = os.memfd_create("stdin")
    _write(file, data)
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _become(uid: int) -> None:
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write(str(OOM_SCORES[uid == 0]))
    if uid:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    os.umask(0o022)


def _count(name: str) -> int:
    for path, key in COUNTERS[name]:
        try:
            with open(path) as file:
                words = file.read().split()
        except OSError:
            continue
        if key in words:
            return int(words[words.index(key) + 1])
    return 0


def _is_full(path: str) -> bool:
    try:
        about = os.statvfs(path)
    except OSError:
        return False
    return about.f_bavail * about.f_frsize < FULL_BELOW or (about.f_files > 0 and about.f_favail == 0)


def _write(stream: int, data: bytes) -> None:
    os.set_blocking(stream, True)  # the command may have changed that
    try:
        while data:
            data = data[os.write(stream, data) :]
    except OSError:
        return  # the host is gone


if __name__ == "__main__":
    main()
