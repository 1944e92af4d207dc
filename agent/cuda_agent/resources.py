"""Where the data folders are: read in place in a checkout, inside the package in a wheel."""

from importlib.util import find_spec
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = _PACKAGE.parents[1]


def prompts_dir() -> Path:
    """Return the folder of what the model reads."""
    return _data("prompts")


def workspace_template() -> Path:
    """Return the folder that every workspace starts from."""
    return _data("sandbox_image/workspace")


def judge_main() -> Path:
    """Return the file that stands as `__main__.py` beside the judge's package."""
    return _data("sandbox_image/__main__.py")


def dockerfile() -> Path:
    """Return the recipe of the sandbox's image."""
    return _data("sandbox_image/Dockerfile")


def run_command() -> Path:
    """Return the program that runs the host's commands in a container."""
    return _data("sandbox_image/run_command.py")


def judge_package() -> Path:
    """Return the folder of the judge's package; nothing of it is imported."""
    spec = find_spec("cuda_agent_judge")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("cuda_agent_judge is not installed; reinstall cuda-agent")
    return Path(spec.origin).parent


def tree(root: Path) -> dict[str, bytes]:
    """Return every file under `root` by its POSIX name, without what interpreters and editors leave behind."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.name.endswith((".pyc", "~", ".gitkeep")) and "__pycache__" not in path.parts
    }


def _data(name: str) -> Path:
    for root in (_PACKAGE, _CHECKOUT):
        if (root / name).exists():
            return root / name
    raise FileNotFoundError(f"{name} is missing from the installation; reinstall cuda-agent")
