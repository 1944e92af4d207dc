"""The built-in model needs the standard library only."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
SCRIPT = "import sys; import cuda_agent.llm.builtin.policy; print(*{name.partition('.')[0] for name in sys.modules})"
PATHS = [str(ROOT / "agent"), str(ROOT / "sandbox_image")]
ALLOWED = sys.stdlib_module_names | {"cuda_agent", "cuda_agent_judge", "__main__"}


def test_it_imports_the_standard_library_only() -> None:
    bare = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path += {PATHS!r}; {SCRIPT}"],
        capture_output=True,
        text=True,
    )
    assert bare.returncode == 0, bare.stderr
    assert set(bare.stdout.split()) - ALLOWED == set()
