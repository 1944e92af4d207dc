import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from cuda_agent.errors import ConfigError
from cuda_agent.sandbox.python import check_python, find_python

MakeVenv = Callable[..., Path]


@pytest.fixture
def make_venv(tmp_path: Path) -> MakeVenv:
    """Makes real interpreters whose torch is a stand-in of a given version."""

    def make(name: str, torch: str | None, *, broken: bool = False) -> Path:
        venv.create(tmp_path / name, symlinks=True)
        if torch is not None:
            package = next((tmp_path / name / "lib").iterdir()) / "site-packages" / "torch"
            package.mkdir()
            lines = [f"__version__ = {torch!r}", "from torch import cuda", *(["raise OSError('no libc10')"] * broken)]
            (package / "__init__.py").write_text("\n".join(lines))
            (package / "cuda.py").write_text("def is_available(): return False\n")
        return tmp_path / name / "bin" / "python3"

    return make


def test_a_fitting_python_is_described(make_venv: MakeVenv) -> None:
    path = make_venv("good", "2.13.0+cpu")
    found = find_python(path, host={})
    assert (found.path, found.torch, found.cuda) == (path, "2.13.0+cpu", False)
    assert found.version == ".".join(map(str, sys.version_info[:3]))


def test_the_environment_names_one(make_venv: MakeVenv) -> None:
    path = make_venv("good", "2.10.0")
    assert find_python(host={"CUDA_AGENT_PYTHON": str(path)}).path == path


def test_the_flag_is_stronger_than_the_environment(make_venv: MakeVenv) -> None:
    path = make_venv("good", "2.10.0")
    assert find_python(path, host={"CUDA_AGENT_PYTHON": "/nowhere"}).path == path


def test_a_folder_beside_is_found(make_venv: MakeVenv, tmp_path: Path) -> None:
    make_venv("a", None)
    path = make_venv("b/.venv-sandbox", "2.13.0")
    assert find_python(host={}, beside=(tmp_path / "a", tmp_path / "b")).path == path


@pytest.mark.parametrize(
    ("torch", "message"),
    [
        (None, "cannot import torch (No module named 'torch'): run `make install`"),
        ("2.9.1", "has torch 2.9.1 and 2.10 or newer is needed: run `make install`"),
        ("1.13", "has torch 1.13 and 2.10 or newer"),
    ],
)
def test_a_python_that_does_not_fit_is_refused_in_one_sentence(
    make_venv: MakeVenv, torch: str | None, message: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        find_python(make_venv("bad", torch), host={})
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_broken_torch_is_said(make_venv: MakeVenv) -> None:
    with pytest.raises(ConfigError, match="cannot import torch \\(no libc10\\)"):
        find_python(make_venv("bad", "2.13.0", broken=True), host={})


def test_what_is_no_python_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--python names '/nowhere', which is no program"):
        find_python(Path("/nowhere"), host={})
    with pytest.raises(ConfigError, match=r"CUDA_AGENT_PYTHON \(/bin/true\) does not run as a Python"):
        find_python(host={"CUDA_AGENT_PYTHON": "/bin/true"})
    with pytest.raises(ConfigError, match="which is no program"):
        find_python(tmp_path, host={})


def test_the_host_s_packages_are_not_used_for_the_check(make_venv: MakeVenv, tmp_path: Path) -> None:
    (tmp_path / "planted").mkdir()
    (tmp_path / "planted" / "torch.py").write_text("__version__ = '2.13.0'\n")
    with pytest.raises(ConfigError, match="cannot import torch"):
        check_python(make_venv("bare", None), called="x", host={"PYTHONPATH": str(tmp_path / "planted")})


def test_none_at_all_says_what_to_do(tmp_path: Path, make_venv: MakeVenv) -> None:
    # Run by an interpreter without torch, so that the running one is no candidate.
    bare = make_venv("bare", None)
    code = (
        f"import sys; sys.path[:0] = {[p for p in sys.path if 'site-packages' not in p and not p.endswith('.zip')]!r}\n"
        "from cuda_agent.sandbox.python import find_python\n"
        f"from pathlib import Path\ntry: find_python(host={{}}, beside=(Path({str(tmp_path)!r}),))\n"
        "except Exception as error: print(error)"
    )
    said = subprocess.run([bare, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == (
        "the sandbox needs a Python with torch and there is none: "
        "run `make install`, or name one with --python or $CUDA_AGENT_PYTHON\n"
    )
