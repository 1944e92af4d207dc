"""Which GPU a run gets."""

from pathlib import Path

import pytest

from cuda_agent.config import Settings
from cuda_agent.errors import ConfigError
from cuda_agent.runs.place import choose
from cuda_agent.sandbox.gpus import Gpu, chosen, listed, visible

GPUS = [Gpu(str(i), f"GPU-{i}{i}{i}{i}-aaaa", "H200", "580") for i in range(3)]


@pytest.mark.parametrize(
    ("named", "found"),
    [
        (None, ["GPU-0000-aaaa", "GPU-1111-aaaa", "GPU-2222-aaaa"]),
        ("", []),
        ("1", ["GPU-1111-aaaa"]),
        ("2,0", ["GPU-2222-aaaa", "GPU-0000-aaaa"]),
        ("GPU-11", ["GPU-1111-aaaa"]),
        ("GPU-2222-aaaa", ["GPU-2222-aaaa"]),
        ("MIG-0123", ["MIG-0123"]),
        ("-1", []),
        ("0,7,1", ["GPU-0000-aaaa"]),
        ("GPU-", []),
    ],
)
def test_cuda_visible_devices_chooses_by_number_or_uuid(named: str | None, found: list[str]) -> None:
    assert visible(GPUS, {} if named is None else {"CUDA_VISIBLE_DEVICES": named}) == found


@pytest.mark.parametrize(
    ("script", "uuids"),
    [
        ("echo '0, GPU-aa, NVIDIA H200, 580.1'; echo '1, GPU-bb, NVIDIA H200, 580.1'", ["GPU-aa", "GPU-bb"]),
        ("echo 'NVIDIA-SMI has failed because it could not communicate with the driver.'; exit 9", []),
        ("echo 'No devices were found'", []),
    ],
)
def test_gpus_are_those_that_nvidia_smi_lists(tmp_path: Path, script: str, uuids: list[str]) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    assert [gpu.uuid for gpu in listed(str(program))] == uuids


def test_no_nvidia_smi_is_no_gpu(tmp_path: Path) -> None:
    assert listed(str(tmp_path / "nowhere")) == []


@pytest.mark.parametrize(
    ("asked", "named", "uuid"),
    [
        (None, None, "GPU-0000-aaaa"),
        (None, "2,0", "GPU-2222-aaaa"),
        (None, "", None),
        (None, "MIG-0123,0", "MIG-0123"),
        ("1", None, "GPU-1111-aaaa"),
        ("1", "2,1", "GPU-1111-aaaa"),
        ("GPU-2222-aaaa", None, "GPU-2222-aaaa"),
        ("GPU-22", "GPU-2222-aaaa", "GPU-2222-aaaa"),
        ("MIG-0123", None, "MIG-0123"),
    ],
)
def test_a_run_gets_the_gpu_that_it_asks_for_or_the_first_that_may_be_used(
    asked: str | None, named: str | None, uuid: str | None
) -> None:
    environ = {} if named is None else {"CUDA_VISIBLE_DEVICES": named}
    found = chosen(GPUS, environ, asked)
    assert (found.uuid if found else None) == uuid


@pytest.mark.parametrize(
    ("asked", "named", "words"),
    [
        ("7", None, r"no GPU '7' .* 0 \(H200, GPU-0000-aaaa\); 1 \(H200"),
        ("GPU-", None, "no GPU 'GPU-'"),
        ("1", "0,2", r"\$CUDA_VISIBLE_DEVICES \('0,2'\)"),
        ("0", "", r"\$CUDA_VISIBLE_DEVICES \(''\)"),
    ],
)
def test_a_gpu_that_cannot_be_had_is_refused(asked: str, named: str | None, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        chosen(GPUS, {} if named is None else {"CUDA_VISIBLE_DEVICES": named}, asked)


def test_a_gpu_and_the_target_cpu_do_not_go_together() -> None:
    with pytest.raises(ConfigError, match="leave one of them out"):
        choose(Settings(operator=Path("op.py"), sandbox="local", target="cpu", gpu="0"))


def test_a_gpu_that_is_not_of_this_machine_is_refused_before_anything_is_started() -> None:
    with pytest.raises(ConfigError, match="no GPU 'GPU-nowhere'"):
        choose(Settings(operator=Path("op.py"), sandbox="local", gpu="GPU-nowhere"))
