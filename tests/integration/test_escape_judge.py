"""Ways of a model in a container to the judge, its files and its verdicts; each test names what stands in the way."""

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration import house
from tests.integration.house import House

from cuda_agent.installing import session
from cuda_agent.sandbox.docker.layout import JUDGE_SOCKET, TRUSTED

pytestmark = pytest.mark.docker

STATE = TRUSTED.state_dir
SESSION = session(STATE)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house.opened(tmp_path_factory.mktemp("house")) as one:
        yield one


@pytest.fixture
def place(shared: House) -> House:
    shared.start_over()
    return shared


def test_the_judge_answers_the_model_s_command(place: House) -> None:
    """No defence: what all other rows rest on, a right submission that passes under its own uid."""
    done = place.verify()
    assert done.exit_code == 0, done.stderr
    assert b"[PASS] correct" in done.stdout
    record = json.loads(place.root(f"tail -n 1 {SESSION}/records.jsonl"))
    assert record["isolation"] == "separate-uid"


READING = {
    "the session": f"cat {SESSION}/session.json",
    "the pristine operator": f"cat {SESSION}/operator/model.py",
    "the records": f"cat {SESSION}/records.jsonl",
    "the reports": f"ls -R {STATE}/reports",
    "what is there at all": f"ls {STATE}",
    "by the way of the judge's own root": f"for p in /proc/[0-9]*; do cat $p/root{SESSION}/session.json; done",
    "by the directory of a process": "for p in /proc/[0-9]*; do ls $p/cwd/session; done",
    "open descriptors": "for p in /proc/[0-9]*; do [ -O $p ] || ls -l $p/fd; done",
    "memory": "for p in /proc/[0-9]*; do [ -O $p ] || head -c 10 $p/mem; done",
    "environments": "for p in /proc/[0-9]*; do [ -O $p ] || cat $p/environ; done",
}


@pytest.mark.parametrize("script", READING.values(), ids=READING.keys())
def test_what_the_judge_keeps_cannot_be_read(place: House, script: str) -> None:
    """The state directory is root's alone (0700) and the kernel shows no other user's processes from inside."""
    done = place.sh(script)
    assert done.exit_code != 0
    assert done.stdout == b""
    assert b"Permission denied" in done.stderr


WRITING = {
    "the judge": "echo x >> /opt/cuda-agent/judge/cuda_agent_judge/cli.py",
    "a module beside the judge": "touch /opt/cuda-agent/judge/torch.py",
    "the interpreter": "touch /opt/cuda-agent/venv/lib/python3/site-packages/usercustomize.py",
    "the system": "touch /usr/lib/x /etc/ld.so.preload",
    "the reference": f"echo x > {SESSION}/operator/model.py",
    "the records": f"echo '{{}}' >> {SESSION}/records.jsonl",
    "a report": f"touch {STATE}/reports/x.json",
    "the session as a whole": f"mv {STATE}/session /tmp/",
    "the state directory": f"chmod 777 {STATE}",
    "the socket, gone": f"rm -f {JUDGE_SOCKET}",
    "the socket, replaced": f"mv {Path(JUDGE_SOCKET).parent} /tmp/other",
    "the socket, shut": f"chmod 600 {JUDGE_SOCKET}",
    "the submission's sealed copy": f"touch {TRUSTED.tmp}/x",
    "the root": "touch /x; mkdir /y",
    "the kernel's settings": "echo x > /proc/sys/kernel/core_pattern",
    "its own limits": "echo max > /sys/fs/cgroup/pids.max",
    "by mounting over it": "mount -t tmpfs none /opt; unshare -Urm mount -t tmpfs none /opt",
    "by another user": f"sudo -u root touch {STATE}/x; su -c 'touch {STATE}/x' </dev/null",
    "by a program of root's": "cp /bin/bash /tmp/b; chmod 4755 /tmp/b; chown 0 /tmp/b",
}


@pytest.fixture(scope="module")
def idle(shared: House) -> House:
    """The judge has compiled the baseline, which it does ahead, and writes nothing more by itself."""
    shared.start_over()
    done = shared.model.exec(["python3", "-m", "utils.profiling", "--baseline"], timeout_s=600)
    assert done.exit_code == 0, done.stderr
    return shared


@pytest.mark.parametrize("script", WRITING.values(), ids=WRITING.keys())
def test_what_is_not_the_model_s_cannot_be_written(idle: House, place: House, script: str) -> None:
    """Read-only root, folders of root's, no capability and no-new-privileges."""
    before = _fingerprint(place)
    assert place.sh(script).exit_code != 0
    assert _fingerprint(place) == before


def _fingerprint(place: House) -> str:
    """Everything that is not the model's, by name, rights and content."""
    kept = f"{STATE} {Path(JUDGE_SOCKET).parent} {TRUSTED.tmp} /opt/cuda-agent/judge"
    return place.root(f"find {kept} -printf '%p %m %U %y\\n' | sort; find {kept} -type f -exec sha256sum {{}} + | sort")


SIGNALS = {
    "everything there is": "kill -9 -1",
    "each process by its number": "for p in /proc/[0-9]*; do kill -9 ${p#/proc/}; done",
    "stop instead of kill": "for p in /proc/[0-9]*; do [ ${p#/proc/} = $$ ] || kill -STOP ${p#/proc/}; done",
    "the parent": "kill -9 $PPID",
    "the first process": "kill -9 1",
    "by name": "pkill -9 python3; killall -9 python3",
    "trace it": "for p in /proc/[0-9]*; do echo 1000 > $p/oom_score_adj; done",
}


@pytest.mark.parametrize("script", SIGNALS.values(), ids=SIGNALS.keys())
def test_the_judge_cannot_be_ended_or_stopped(place: House, script: str) -> None:
    """The judge and what runs a command are root's: the kernel lets no other user signal them."""
    place.sh(script)
    assert place.verify().exit_code == 0


def test_a_judge_at_work_cannot_be_ended(place: House) -> None:
    """As above, for all its processes while they judge: the submission's too, which runs under a third uid."""
    answers: list[int | None] = []
    asking = threading.Thread(target=lambda: answers.append(place.verify().exit_code))
    asking.start()
    while asking.is_alive():
        place.sh("for p in /proc/[0-9]*; do [ -O $p ] || kill -9 ${p#/proc/}; done")
    assert answers == [0]


LINKS = {
    "the module is a link to the session": f"ln -sf {SESSION}/session.json model_new.py",
    "the module is a link to root's passwords": "ln -sf /etc/shadow model_new.py",
    "a source is a link": f"ln -s {SESSION}/records.jsonl kernels/a.cpp",
    "kernels is a link": f"rm -rf kernels; ln -s {SESSION} kernels",
    "a folder in kernels is a link": f"ln -s {SESSION} kernels/sub",
    "a link through a process": "ln -s /proc/1/root kernels/sub",
    "a pipe": "mkfifo kernels/a.cpp",
    "a file without an end": "truncate -s 4T kernels/a.cpp",
}


@pytest.mark.parametrize("script", LINKS.values(), ids=LINKS.keys())
def test_links_in_the_workspace_lead_the_judge_nowhere(place: House, script: str) -> None:
    """The judge reads with the rights of the workspace's owner and follows no link."""
    place.sh(script)
    done = place.verify()
    assert done.exit_code == 1
    assert done.stdout.startswith(b"[FAIL] compile_error: ")
    assert b"pristine" not in done.stdout + done.stderr
    # and the host, which reads the submission as the model, is told of plain files only
    assert set(place.submission().files) <= {"model_new.py", "kernels/.gitkeep"}


def test_there_are_no_hard_links_to_what_is_not_the_model_s(place: House) -> None:
    """The workspace is a file system of its own; and where it is not, reading as the owner refuses."""
    done = place.sh("ln /etc/shadow kernels/a.cpp; ln /opt/cuda-agent/judge/__main__.py kernels/b.cpp")
    assert done.exit_code != 0
    place.root("install -m 600 /etc/passwd /workspace/kernels/c.cpp")
    answer = place.verify()
    assert b"[FAIL] compile_error: kernels/c.cpp cannot be read: Permission denied" in answer.stdout


PLANT = "import os; open(f'/tmp/ran-as-{os.getuid()}', 'a').write(__name__)\n"
PLANTS = [
    "sitecustomize.py", "usercustomize.py", "torch.py", "json.py", "os.py", "socket.py", "struct.py", "conftest.py",
    "torch/__init__.py", "cuda_agent_judge/__init__.py", "utils/json.py", "kernels/torch.py", "__main__.py",
]  # fmt: skip
SHELL_PLANT = "#!/bin/sh\ntouch /tmp/ran-as-$(id -u)\n"
SHELL_PLANTS = [
    ".git/hooks/post-checkout",
    ".git/hooks/pre-commit",
    ".openhands/plugins/x/hook.sh",
    ".bashrc",
    ".envrc",
]
SETTINGS = {
    ".git/config": "[core]\n\tfsmonitor = touch /tmp/ran-as-0\n",
    ".gitattributes": "* filter=x\n",
    ".openhands/plugins/x/plugin.json": '{"hooks": {"session_start": "touch /tmp/ran-as-0"}}',
    ".openhands/setup.sh": "touch /tmp/ran-as-0\n",
    "pyvenv.cfg": "home = /workspace\n",
    "ninja": SHELL_PLANT,
    "g++": SHELL_PLANT,
}


def test_what_is_planted_in_the_workspace_runs_as_nobody_but_the_model(place: House, tmp_path: Path) -> None:
    """The judge runs isolated (-I) under a clean environment, the host imports and starts nothing of a workspace."""
    for name in PLANTS:
        place.model.write(name, PLANT.encode())
    for name in SHELL_PLANTS:
        place.model.write(name, SHELL_PLANT.encode())
    for name, text in SETTINGS.items():
        place.model.write(name, text.encode())
    home = place.sh("find . -name '*.sh' -o -path './.git/hooks/*' -o -name ninja -o -name g++ | xargs chmod 755; "
                    'cp -r . "$HOME"; site=$HOME/.local/lib/python3.11/site-packages; mkdir -p "$site"; '
                    'cp usercustomize.py sitecustomize.py "$site"')  # fmt: skip
    assert home.exit_code == 0, home.stderr
    env = {"PYTHONPATH": "/workspace", "PYTHONSTARTUP": "/workspace/json.py", "PYTHONHOME": "", "BASH_ENV": ".bashrc",
           "PATH": "/workspace:/usr/bin:/bin", "LD_PRELOAD": "/workspace/x.so"}  # fmt: skip
    place.model.exec(["/opt/cuda-agent/venv/bin/python3", "-m", "utils.verification"], env=env, timeout_s=300)
    assert place.judge.verdict().status in ("win", "tie", "slower", "inconclusive")
    ran = place.sh("ls /tmp | grep ran-as").stdout.decode().split()
    assert "ran-as-0" not in ran
    assert "ran-as-65534" not in ran
    assert not os.path.exists("/tmp/ran-as-0")


INCLUDES = {
    "an include": f'#include "{SESSION}/operator/model.py"\n',
    "an assembler's include": f'asm(".include \\"{SESSION}/operator/model.py\\"");\n',
    "an assembler's bytes": f'asm(".incbin \\"{SESSION}/session.json\\"");\n',
    "a question": f'#if __has_include("{SESSION}/session.json")\n#error it is there\n#endif\nint x;\n',
}


@pytest.mark.parametrize("source", INCLUDES.values(), ids=INCLUDES.keys())
def test_a_compiler_reads_nothing_for_the_model_that_it_may_not_read(place: House, source: str) -> None:
    """Compilers run under the submission's uid, which cannot enter the judge's folders."""
    place.model.write("kernels/a.cpp", source.encode())
    done = place.model.exec(["bash", "utils/compile.sh"], timeout_s=300)
    text = (done.stdout + done.stderr).decode()
    assert "pristine" not in text
    assert "it is there" not in text
    if "asm" in source or "#include" in source:
        assert done.exit_code == 1, text
