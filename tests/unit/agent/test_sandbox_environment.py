import os
import subprocess
import sys
from pathlib import Path

from cuda_agent.sandbox.environment import prepare_state_dir, sandbox_environment


def program(path: Path, script: str = "exit 0") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def folders(env: dict[str, str]) -> list[str]:
    return env["PATH"].split(":")


def test_only_named_variables_are_passed_on(tmp_path: Path) -> None:
    host = {"CUDA_VISIBLE_DEVICES": "1", "API_KEY": "x", "PYTHONPATH": "/p", "PATH": "/usr/bin", "HOME": "/root"}
    env = sandbox_environment(Path(sys.executable), tmp_path, host=host, extra={"ADDED": "1"})
    assert env["CUDA_VISIBLE_DEVICES"] == "1"
    assert env["ADDED"] == "1"
    assert env["HOME"] == str(tmp_path / "home")
    assert not {"API_KEY", "PYTHONPATH"} & set(env)


def test_an_empty_list_of_devices_stays_empty(tmp_path: Path) -> None:
    env = sandbox_environment(Path(sys.executable), tmp_path, host={"CUDA_VISIBLE_DEVICES": ""})
    assert env["CUDA_VISIBLE_DEVICES"] == ""


def test_a_toolchain_that_only_the_host_s_path_knows_is_found_last(tmp_path: Path) -> None:
    program(tmp_path / "modules/nsys")
    program(tmp_path / "modules/other")
    program(tmp_path / "unrelated/thing")
    host = {"PATH": f"{tmp_path}/unrelated:{tmp_path}/modules:relative"}
    path = folders(sandbox_environment(tmp_path / "py/bin/python3", tmp_path / "s", host=host))
    assert path[1] == str(tmp_path / "py/bin")
    assert path[-1] == str(tmp_path / "modules")
    assert not {f"{tmp_path}/unrelated", "relative"} & set(path)


def test_a_named_cuda_is_taken(tmp_path: Path) -> None:
    (tmp_path / "cuda/bin").mkdir(parents=True)
    env = sandbox_environment(Path(sys.executable), tmp_path, host={"CUDA_HOME": f"{tmp_path}/cuda"})
    assert env["CUDA_HOME"] == f"{tmp_path}/cuda"
    assert f"{tmp_path}/cuda/bin" in folders(env)


def test_foreign_library_folders_are_left_out(tmp_path: Path) -> None:
    for name in ("nvidia/lib64", "conda/lib"):
        (tmp_path / "libs" / name).mkdir(parents=True)
    host = {"LD_LIBRARY_PATH": f"{tmp_path}/libs/conda/lib:{tmp_path}/libs/nvidia/lib64:/no/cuda"}
    env = sandbox_environment(Path(sys.executable), tmp_path, host=host)
    assert env["LD_LIBRARY_PATH"] == f"{tmp_path}/libs/nvidia/lib64"


def test_a_python_of_another_name_is_python3_inside(tmp_path: Path) -> None:
    python = program(tmp_path / "it's here/python3.99", 'echo "$0 $1"')
    prepare_state_dir(python, tmp_path / "s")
    env = sandbox_environment(python, tmp_path / "s", host={})
    for name in ("python3", "python"):
        said = subprocess.run([name, "a b"], env=env, capture_output=True, text=True, check=True).stdout
        assert said == f"{python} a b\n"


def test_sudo_runs_the_command_as_it_is(tmp_path: Path) -> None:
    prepare_state_dir(Path(sys.executable), tmp_path / "s")
    env = sandbox_environment(Path(sys.executable), tmp_path / "s", host={})
    argv = ["sudo", "-E", "-u", "root", "A=1", "sh", "-c", 'echo "$A $1" $(id -u); exit 3', "sh", "a  b"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, f"1 a  b {os.getuid()}\n")
