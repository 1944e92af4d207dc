"""Which devices a container is handed."""

from pathlib import Path

import pytest

from cuda_agent.sandbox.docker.gpus import Gpu, listed, visible

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
