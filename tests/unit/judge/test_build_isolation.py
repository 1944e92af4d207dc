"""Compilers read what a submission names: under a uid that may not read the judge's own files."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from building import NUMBER, number, workspace

from cuda_agent_judge.build import BuildResult, build
from cuda_agent_judge.isolation import UNPRIVILEGED, Identity
from cuda_agent_judge.toolchain import Target, compilers

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give compilers another uid")
SECRET = "the judge's own"


@pytest.fixture
def ground() -> Iterator[Path]:
    """A folder that others may enter, with a private one in it that they may not."""
    folder = Path(tempfile.mkdtemp(prefix="build-"))
    folder.chmod(0o755)
    (folder / "private").mkdir(mode=0o700)
    (folder / "private" / "secret.h").write_text(f"{SECRET}\n")
    yield folder
    shutil.rmtree(folder)


def built(ground: Path, files: dict[str, str], target: Target = "cpu") -> BuildResult:
    return build(
        workspace(ground / "workspace", files),
        ground / "private" / "build",
        target=target,
        arch="90a",
        identity=Identity(UNPRIVILEGED),
    )


def test_a_build_in_a_folder_that_the_compiler_cannot_reach(ground: Path) -> None:
    files = {"kernels/a.cpp": '#include "sub/v.h"\n' + NUMBER % "VALUE", "kernels/sub/v.h": "#define VALUE 3\n"}
    assert number(built(ground, files)) == 3
    assert number(built(ground, {"kernels/sub/v.h": "#define VALUE 4\n"})) == 4
    left = [path for path in (ground / "private" / "build").rglob("*") if path.is_file()]
    assert {path.stat().st_uid for path in left if path.suffix in (".o", ".so")} == {0}


def test_cuda_sources_are_compiled_there_too(ground: Path) -> None:
    if not any(path.name == "nvcc" for path in compilers("cuda")):
        pytest.skip("needs nvcc")
    source = "__global__ void k(int* x) { *x = 1; }\n" + NUMBER % "5"
    result = built(ground, {"kernels/a.cu": source}, target="cuda")
    # Without torch's CUDA libraries there is nothing to link with; the source itself compiles.
    assert "kernels/a.cu does not compile" not in result.reason, result.log


READS = {
    "an include": '#include "%s"\n',
    "a system include": "#include <%s>\n",
    "an assembler's include": 'asm(".include \\"%s\\"");\n',
    "an assembler's bytes": 'asm(".incbin \\"%s\\"");\n',
    "a question for it": '#if __has_include("%s")\nint x;\n#else\n#error there is none\n#endif\n',
}


@pytest.mark.parametrize("source", READS.values(), ids=READS.keys())
def test_what_only_root_may_read_does_not_get_into_a_build(ground: Path, source: str) -> None:
    for name in (str(ground / "private" / "secret.h"), "../../secret.h"):
        result = built(ground, {"kernels/a.cpp": source.replace("%s", name)})
        assert not result.ok
        assert SECRET not in result.log + result.reason
