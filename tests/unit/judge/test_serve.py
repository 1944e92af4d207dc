"""The judge behind a socket: what it grants, what it refuses, and that neither side can hold the other."""

import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from judging import HOME, SCALE, model_new
from serving import FAKE, MODEL, Served, as_uid, framed, hear, readable, request, runs, serve

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to run clients under another uid")


@pytest.fixture
def ground() -> Iterator[Path]:
    """A folder that other users may enter, with a workspace that belongs to one of them."""
    folder = Path(tempfile.mkdtemp(prefix="serve-"))
    folder.chmod(0o755)
    (folder / "workspace" / "kernels").mkdir(parents=True)
    (folder / "home").mkdir()
    (folder / "home" / "__main__.py").write_text(FAKE)
    if os.geteuid() == 0:
        for path in (folder / "workspace", folder / "workspace" / "kernels"):
            os.chown(path, MODEL, MODEL)
    yield folder
    shutil.rmtree(folder)


def _running(ground: Path, home: Path, limit_s: float = 60.0) -> Iterator[Served]:
    served = serve(ground, home, limit_s=limit_s)
    yield served
    served.process.terminate()
    _, said = served.process.communicate(timeout=60)
    assert "Traceback" not in said


@pytest.fixture
def served(ground: Path) -> Iterator[Served]:
    yield from _running(ground, ground / "home")


@pytest.fixture
def hasty(ground: Path) -> Iterator[Served]:
    """It waits half a second for clients instead of half a minute."""
    yield from _running(ground, ground / "home", 0.5)


def _pids(ground: Path) -> list[int]:
    """The processes of a `compile` that has said that it started."""
    return [int(word) for word in (ground / "home" / "note").read_text().split()]


def _none_of(pids: list[int]) -> bool:
    """Whether all of them end; the limit only ends a failing test."""
    limit = time.monotonic() + 60
    while any(map(runs, pids)) and time.monotonic() < limit:
        time.sleep(0.02)
    return not any(map(runs, pids))


def _started(served: Served) -> socket.socket:
    """A client whose command runs and does not end by itself."""
    one = served.connect()
    one.sendall(request("compile"))
    assert one.recv(100).endswith(b"started\n")
    return one


def test_streams_and_exit_code_come_back_and_the_server_says_what_is_judged(ground: Path, served: Served) -> None:
    told = served.ask("analyze", "--json")
    fixed = f"--session {ground}/session --workspace {ground}/workspace"
    assert (told.code, told.stderr, told.stdout.decode()) == (7, b"err\n", f"analyze {fixed} --json\n")


def test_a_judge_that_was_killed_is_128_and_the_signal(served: Served) -> None:
    assert served.ask("profile", "--baseline").code == 137


REFUSED = {
    "a command of the host": request("verdict"),
    "serving again": request("serve"),
    "a flag of the host": request("verify", "--final"),
    "a report": request("verify", "--report", "/etc/passwd"),
    "a report in one word": request("verify", "--report=/etc/passwd"),
    "a nonce": request("verify", "--nonce", "x"),
    "a session": request("verify", "--session", "/tmp"),
    "a workspace": request("verify", "--workspace", "/root"),
    "a workspace by a shortened flag": request("verify", "--work=/root"),
    "a flag of another command": request("verify", "--baseline"),
    "a flag twice": request("verify", "--json", "--json"),
    "a number as a flag": request("verify", 1),
    "a list as a flag": request("verify", ["--json"]),
    "a list as the command": request(["verify"]),
    "no command": framed(b'{"arguments": []}'),
    "a text for the arguments": framed(b'{"command": "verify", "arguments": "--json"}'),
    "a key nobody knows": framed(b'{"command": "verify", "arguments": [], "workspace": "/root"}'),
    "a list": framed(b'["verify"]'),
    "no JSON": framed(b"verify"),
    "not even text": framed(b"\xff\xfe"),
    "deeper than any parser goes": framed(b"[" * 4000),
    "nothing": framed(b""),
    "a length beyond the limit": struct.pack("!I", 1 << 31) + b"x",
    "another protocol": b"GET / HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("sent", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_not_to_be_had_is_refused_in_one_line(served: Served, sent: bytes) -> None:
    with served.connect() as one:
        one.sendall(sent)
        told = hear(one)
    assert (told.code, told.stdout) == (2, b"")
    assert re.fullmatch(rb"\[FAIL\] [^\n]+\n", told.stderr)
    assert served.ask("analyze").code == 7  # it serves on


def test_a_request_that_breaks_off_is_refused(served: Served) -> None:
    with served.connect() as one:
        one.sendall(request("analyze")[:-3])
        one.shutdown(socket.SHUT_WR)
        assert b"ends too early" in hear(one).stderr


def test_a_silent_client_is_let_go_and_holds_nobody(hasty: Served) -> None:
    with hasty.connect() as silent, hasty.connect() as half:
        half.sendall(b"\0\0")
        assert hasty.ask("analyze").code == 7
        assert b"no request within" in hear(silent).stderr
        assert b"no request within" in hear(half).stderr


def test_a_client_that_reads_nothing_loses_its_command_and_holds_nobody(hasty: Served) -> None:
    with hasty.connect() as deaf:
        deaf.sendall(request("verify"))
        assert hasty.ask("analyze").code == 7


def test_one_command_runs_at_a_time_in_their_order(served: Served) -> None:
    with _started(served) as first, served.connect() as second, served.connect() as third:
        for one in (second, third):
            one.sendall(request("analyze"))
            assert one.recv(5 + 100)[5:] == b"waiting for another judge command to end\n"
        assert not readable(second, 0.2)
        first.close()
        assert hear(second).code == hear(third).code == 7


def test_a_client_that_leaves_the_queue_is_forgotten(served: Served) -> None:
    with _started(served) as first:
        with served.connect() as second:
            second.sendall(request("verify"))
            assert readable(second, 60)
        first.close()
        assert served.ask("analyze").code == 7


@pytest.mark.parametrize("how", ["close", "half-close", "more"])
def test_a_client_that_goes_takes_its_whole_command_along(ground: Path, served: Served, how: str) -> None:
    with _started(served) as one:
        pids = _pids(ground)
        if how == "half-close":
            one.shutdown(socket.SHUT_WR)
        elif how == "more":
            one.sendall(b"more than was asked for")
        else:
            one.close()
        assert _none_of(pids)
    assert len(pids) == 2


def test_too_many_clients_are_told_so(served: Served) -> None:
    with _started(served):
        waiting = [served.connect() for _ in range(31)]
        for one in waiting:
            one.sendall(request("analyze"))
            assert readable(one, 60)
        assert b"run one at a time" in served.ask("analyze").stderr
        for one in waiting:
            one.close()
    limit = time.monotonic() + 60  # it notices one after the other
    while (code := served.ask("analyze").code) == 2 and time.monotonic() < limit:
        time.sleep(0.02)
    assert code == 7


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_server_that_is_told_to_end_leaves_nothing(ground: Path, number: int) -> None:
    served = serve(ground, ground / "home")
    with _started(served):
        pids = _pids(ground)
        served.process.send_signal(number)
        _, said = served.process.communicate(timeout=60)
    assert (served.process.returncode, said) == (0, "")
    assert not any(map(runs, pids))
    assert not served.place.exists()


def test_a_socket_nobody_listens_on_is_replaced_and_a_live_one_is_not(ground: Path, served: Served) -> None:
    second = serve(ground, ground / "home")
    assert "another judge serves" in second.process.communicate(timeout=60)[1]
    served.process.kill()
    served.process.wait()
    for third in _running(ground, ground / "home"):
        assert third.ask("analyze").code == 7


@AS_ROOT
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda ground: os.chown(ground / "workspace", 0, 0), "is root's"),
        (lambda ground: ground.chmod(0o777), "may replace it"),
        (lambda ground: os.chown(ground, MODEL, MODEL), "may replace it"),
        (lambda ground: (ground / "judge.sock").write_text(""), "no socket"),
        (lambda ground: shutil.rmtree(ground / "workspace"), "cannot be used"),
        (lambda ground: _put_a_link_in_its_place(ground), "no folder"),
    ],
)
def test_what_it_cannot_serve_soundly_it_does_not_serve(ground: Path, spoil: object, said: str) -> None:
    assert callable(spoil)
    spoil(ground)
    served = serve(ground, ground / "home")
    assert said in served.process.communicate(timeout=60)[1]
    assert served.process.returncode == 1


def _put_a_link_in_its_place(ground: Path) -> None:
    (ground / "workspace").rename(ground / "x")
    (ground / "workspace").symlink_to(ground / "x")


@AS_ROOT
def test_any_user_may_ask_but_the_submission_s_own(served: Served) -> None:
    assert as_uid(MODEL, lambda: served.ask("analyze").code) == 7
    assert as_uid(65534, lambda: served.ask("analyze").stderr.decode()) == (
        "[FAIL] a submission that is being judged cannot ask the judge\n"
    )


def test_a_workspace_s_command_asks_over_the_socket(ground: Path, served: Served) -> None:
    shutil.copytree(HOME / "workspace" / "utils", ground / "workspace" / "utils")
    told = _command(ground, served, "analysis", "--json")
    assert (told.returncode, told.stderr) == (7, "err\n")
    assert told.stdout.startswith("analyze --session ")
    refused = _command(ground, served, "verification", "--final")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "[FAIL] verify takes no arguments but --json\n"
    assert _command(ground, served, "profiling", "--baseline").returncode == 137


def test_a_command_without_a_judge_to_ask_says_so(ground: Path, served: Served) -> None:
    shutil.copytree(HOME / "workspace" / "utils", ground / "workspace" / "utils")
    served.process.terminate()
    served.process.wait()
    told = _command(ground, served, "analysis")
    assert (told.returncode, told.stderr) == (3, "[FAIL] the judge cannot be reached: No such file or directory\n")


def _command(ground: Path, served: Served, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.defpath, "CUDA_AGENT_JUDGE_SOCKET": str(served.place)}
    line = ["python3", "-m", f"utils.{name}", *arguments]
    return subprocess.run(line, cwd=ground / "workspace", env=env, capture_output=True, text=True, check=False)


@AS_ROOT
def test_the_real_judge_serves_another_user_and_tells_nothing_of_its_own(ground: Path) -> None:
    session = ground / "session"
    (session / "operator").mkdir(parents=True)
    (session / "operator" / "model.py").write_text("# the judge's own copy\n" + SCALE)
    (session / "session.json").write_text('{"libraries": "any"}')
    session.chmod(0o700)
    (ground / "workspace" / "model_new.py").write_text(model_new("return torch.relu(x) * 3"))
    for served in _running(ground, HOME):
        told = as_uid(MODEL, partial(_verified, served))
    assert isinstance(told, list)
    stdout, stderr, code = told
    assert code == 1, stderr
    report = json.loads(stdout.splitlines()[-1])
    assert (report["status"], report["isolation"]) == ("incorrect", "separate-uid")
    for secret in (str(session), "the judge's own copy", "seed"):
        assert secret not in stdout + stderr
    records = (session / "records.jsonl").read_text()
    assert json.loads(records)["status"] == "incorrect"


def _verified(served: Served) -> list[object]:
    told = served.ask("verify", "--json")
    return [told.stdout.decode(), told.stderr.decode(), told.code]
