import contextlib
import json
import sys
from pathlib import Path

import pytest
from tests.unit.agent.fakes import FakeSandbox

from cuda_agent.config import Settings
from cuda_agent.errors import JudgeError
from cuda_agent.installing import Rules
from cuda_agent.judging import Judge, JudgeTimeout, Submission
from cuda_agent.operators import Operator, load
from cuda_agent.sandbox.service import Served
from cuda_agent_judge import asking
from cuda_agent_judge.report import Interval, Report

STUB = """
import json, os, pathlib, sys, time
arguments = sys.argv[1:]
options = dict(zip(arguments[1::1], arguments[2::1]))
seen = [arguments, os.environ["CUDA_AGENT_JUDGE_SESSION"], sys.flags.isolated]
pathlib.Path("seen.json").write_text(json.dumps(seen))
nonce, file = options["--nonce"], options["--report"]
answer = {"schema": 1, "command": arguments[0], "status": "win", "nonce": nonce}
"""
WRITE = "pathlib.Path(file).write_text(json.dumps(answer))\n"


@pytest.fixture
def operator(tmp_path: Path) -> Operator:
    folder = tmp_path / "ope rätor"
    folder.mkdir()
    (folder / "model.py").write_text("import helper\nclass Model: ...\ndef get_inputs(): ...\n")
    (folder / "helper.py").write_text("x = 1\n")
    return load(folder)


@pytest.fixture
def sandbox(tmp_path: Path) -> FakeSandbox:
    return FakeSandbox(tmp_path / "sand box")


@pytest.fixture
def judge(sandbox: FakeSandbox, operator: Operator) -> Judge:
    client = Judge(sandbox, python=sys.executable)
    settings = Settings(operator=operator.path, precision="tf32", libraries="any")
    client.install(operator, Rules.of(settings, "cpu", model_shares_uid=True, locks="/run/lock/here"))
    return client


def stub(sandbox: FakeSandbox, body: str) -> None:
    sandbox.write(f"{sandbox.state_dir}/judge/__main__.py", (STUB + body).encode())


def test_the_judge_and_the_operator_are_installed(sandbox: FakeSandbox, judge: Judge) -> None:
    state = Path(sandbox.state_dir)
    assert (state / "judge/__main__.py").is_file()
    assert (state / "judge/cuda_agent_judge/report.py").is_file()
    assert (state / "judge/workspace/binding.cpp").is_file()
    assert (state / "session/operator/helper.py").read_text() == "x = 1\n"
    settings = json.loads((state / "session/session.json").read_text())
    assert settings == {
        "target": "cpu",
        "precision": "ieee",
        "libraries": "any",
        "output_lifetime": "held",
        "operator_timeout_s": 300.0,
        "model_shares_uid": True,
        "locks": "/run/lock/here",
        "cache": None,
    }
    assert list(Path(sandbox.workspace).iterdir()) == []


def test_the_report_is_read_from_its_file_and_never_from_stdout(sandbox: FakeSandbox, judge: Judge) -> None:
    stub(sandbox, "print(json.dumps(answer | {'status': 'slower'}))\n" + WRITE)
    assert judge.verdict(timeout_s=60).status == "win"
    arguments, session, isolated = json.loads((Path(sandbox.workspace) / "seen.json").read_text())
    assert arguments[:3] == ["verdict", "--workspace", sandbox.workspace]
    assert session == f"{sandbox.state_dir}/session"
    assert isolated == 1


def test_the_final_verdict_is_on_the_files_given_and_not_on_the_workspace(sandbox: FakeSandbox, judge: Judge) -> None:
    state = Path(sandbox.state_dir)
    sandbox.write("kernels/k.cpp", b"other")
    with contextlib.suppress(JudgeError):  # the real judge: nothing here can be judged
        judge.final_verdict(Submission({"model_new.py": b"", "kernels/k.cpp": b"mine"}), timeout_s=60)
    [folder] = [path for path in state.glob("final-*") if not path.name.endswith("-state")]
    assert sorted(path.name for path in folder.iterdir()) == ["kernels", "model_new.py"]
    assert (folder / "kernels/k.cpp").read_text() == "mine"


def test_a_judge_and_a_session_that_were_edited_have_no_say_in_the_final_verdict(
    sandbox: FakeSandbox, judge: Judge
) -> None:
    stub(sandbox, WRITE)
    assert judge.verdict(timeout_s=60).status == "win"
    state = Path(sandbox.state_dir)
    (state / "session/operator/model.py").write_text("edited")
    (state / "judge/random.py").write_text("raise SystemExit('shadowed')")
    said = ""
    try:
        said = judge.final_verdict(Submission({"model_new.py": b""}), timeout_s=60).status
    except JudgeError as error:  # the real judge on an operator that is none
        said = str(error)
    assert said != "win"
    assert "shadowed" not in said
    [fresh] = state.glob("final-*-state")
    assert (fresh / "session/operator/model.py").read_bytes() != b"edited"
    assert not (fresh / "judge/random.py").exists()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("print(json.dumps(answer))", ["exit code 0"]),
        ("sys.exit('torch is missing')", ["torch is missing"]),
        (WRITE + "sys.exit(3)", ["exit code 3"]),
        ("pathlib.Path(file).write_text('nonsense')", ["not JSON"]),
        ("pathlib.Path(file).write_bytes(b'\\xff')", ["no report"]),
        ("answer['nonce'] = 'old'\n" + WRITE, ["not the answer to this call"]),
        ("answer['status'] = 'great'\n" + WRITE, ["great"]),
        ("os.unlink(file)", ["failed"]),
    ],
)
def test_anything_but_an_answer_is_the_judges_failure(
    sandbox: FakeSandbox, judge: Judge, body: str, words: list[str]
) -> None:
    stub(sandbox, body)
    with pytest.raises(JudgeError) as caught:
        judge.verdict(timeout_s=60)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("code", [0, 1, 2])
def test_a_report_stands_whatever_it_says_of_the_submission(sandbox: FakeSandbox, judge: Judge, code: int) -> None:
    stub(sandbox, f"{WRITE}sys.exit({code})")
    assert judge.analyze().command == "analyze"


SERVED = Served("/nowhere", b"a key")
CLIENT = """
if "--token" in arguments:
    import hashlib, hmac
    options.update(zip(arguments, arguments[1:]))
    report = json.dumps(answer | CHANGES).encode()
    seal = hmac.new(KEY, b"report " + report, hashlib.sha256).hexdigest().encode()
    pathlib.Path(file).write_bytes(seal + b"\\n" + report)
    sys.exit(0)
answer["status"] = "slower"
"""


def client(changes: str, key: bytes = b"a key") -> str:
    """Stands for the client and whatever answers it; a judge that is started finds the submission slower."""
    return f"KEY, CHANGES = {key!r}, {changes}\n{CLIENT}{WRITE}"


def test_a_judge_that_listens_is_asked_and_its_sealed_report_taken(sandbox: FakeSandbox, judge: Judge) -> None:
    stub(sandbox, client("{}"))
    judge.served = SERVED
    assert judge.verdict(timeout_s=60).status == "win"


@pytest.mark.parametrize(
    "body",
    [
        client("{}", b"no key"),
        client("{'nonce': 'of an earlier answer'}"),
        client("{'command': 'analyze'}"),
        client("{'status': 'great'}"),
        "if '--token' in arguments: pathlib.Path(file).write_text(json.dumps(answer)); sys.exit(0)\n"
        "answer['status'] = 'slower'\n" + WRITE,
        "if '--token' in arguments: sys.exit(4)\nanswer['status'] = 'slower'\n" + WRITE,
        "if '--token' in arguments: os.unlink(file); sys.exit(0)\nanswer['status'] = 'slower'\n" + WRITE,
    ],
    ids=["another's seal", "an old one", "of another command", "no report", "no seal", "nobody there", "no answer"],
)
def test_what_a_judge_that_listens_has_not_sealed_is_no_verdict(sandbox: FakeSandbox, judge: Judge, body: str) -> None:
    stub(sandbox, body)
    judge.served = SERVED
    assert judge.verdict(timeout_s=60).status == "slower"


def test_an_answer_without_a_seal_does_not_pass_for_one_of_the_judge_that_is_started_then(
    sandbox: FakeSandbox, judge: Judge
) -> None:
    stub(sandbox, "if '--token' in arguments: pathlib.Path(file).write_text(json.dumps(answer))\nsys.exit(0)\n")
    judge.served = SERVED
    with pytest.raises(JudgeError):
        judge.verdict(timeout_s=60)


def test_host_and_judge_make_tokens_and_seals_alike() -> None:
    assert SERVED.token("verdict", "n") == asking.token(SERVED.key, "verdict", "n")
    assert SERVED.opened(asking.seal(SERVED.key, b"{}").encode() + b"\n{}") == b"{}"


def test_a_judge_that_does_not_end_is_stopped(sandbox: FakeSandbox, judge: Judge) -> None:
    stub(sandbox, "time.sleep(60)")
    with pytest.raises(JudgeTimeout, match="after 1 s"):
        judge.verdict(timeout_s=1)


def record(command: str, status: str, sha: str) -> bytes:
    made = Report(
        command=command,  # type: ignore[arg-type]
        status=status,  # type: ignore[arg-type]
        speedup={"compile": Interval(1, 1, 1)} if command == "profile" and sha else {},
        submission_sha256=sha,
    )
    return made.to_json().encode() + b"\n"


def test_new_profiles_are_the_passing_ones_of_whole_new_lines(sandbox: FakeSandbox, judge: Judge) -> None:
    file = f"{sandbox.state_dir}/session/records.jsonl"
    assert judge.new_profiles() == []
    text = record("verify", "correct", "a") + record("profile", "slower", "b") + record("profile", "incorrect", "c")
    half = record("profile", "win", "d")
    sandbox.write(file, text + b"nonsense\n" + half[:20])
    assert [one.submission_sha256 for one in judge.new_profiles()] == ["b"]
    assert judge.new_profiles() == []
    sandbox.write(file, text + b"nonsense\n" + half)
    assert [one.submission_sha256 for one in judge.new_profiles()] == ["d"]
    sandbox.write(file, text + b"nonsense\n" + half + record("profile", "measured", ""))
    assert [(one.status, one.speedup) for one in judge.new_profiles()] == [("measured", {})]
    sandbox.write(file, record("profile", "win", "e"))  # cut short behind our back
    assert [one.submission_sha256 for one in judge.new_profiles()] == ["e"]
