"""What a reference worker does when memory runs out, in whatever words that is said."""

import contextlib
import threading
from typing import Any, cast

import pytest
import torch

from cuda_agent_judge.cudart import CudaFault
from cuda_agent_judge.loops import answer_judge
from cuda_agent_judge.memory import is_out_of_memory
from cuda_agent_judge.protocol import NONCE_BYTES, Kind, pair
from cuda_agent_judge.reference import Reference
from cuda_agent_judge.steps import Steps

ROOM = {
    "an allocation of PyTorch's": torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    "a kernel that cannot be loaded": torch.AcceleratorError("CUDA error: out of memory"),
    "a library's workspace": RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    "the runtime": CudaFault("cudaErrorMemoryAllocation (out of memory)"),
}


class Short:
    """A reference worker that has too little memory for one order, and answers the next."""

    def __init__(self, error: Exception) -> None:
        self.steps = Steps()
        self.fds: tuple[int, ...] = ()
        self._errors = [error]

    def handle(self, kind: Kind, body: dict[str, Any]) -> dict[str, Any]:
        if self._errors:
            raise self._errors.pop()
        return {"kind": kind.name}


@pytest.mark.parametrize("name", ROOM)
def test_memory_that_runs_out_is_said_of_the_machine_and_the_worker_goes_on(name: str) -> None:
    mine, its = pair(b"n" * NONCE_BYTES)
    worker = threading.Thread(target=answer_judge, args=(cast(Reference, Short(ROOM[name])), its), daemon=True)
    worker.start()
    answers = []
    for _ in range(2):
        mine.send(Kind.COMPARE, {})
        answers.append(mine.receive(60.0))
    mine.close()
    worker.join()
    its.close()
    assert [answer.kind for answer in answers] == [Kind.FAULT, Kind.ANSWER]
    assert "too little memory" in answers[0].body["sentence"]


def test_any_other_error_is_a_fault_of_the_judge() -> None:
    mine, its = pair(b"n" * NONCE_BYTES)
    other = RuntimeError("CUDA error: an illegal memory access was encountered")
    assert not is_out_of_memory(other)
    mine.send(Kind.COMPARE, {})
    with contextlib.closing(mine), contextlib.closing(its), pytest.raises(RuntimeError, match="illegal"):
        answer_judge(cast(Reference, Short(other)), its)
