"""A stage as CUDA C++."""

from dataclasses import dataclass

from cuda_agent.llm.builtin.nest import Nest


@dataclass(frozen=True)
class CudaOptions:
    """What a variant of a kernel may change."""

    vector: bool = True
    streaming: bool = False
    block: int = 256
    items: int = 1
    tiled: bool = True


def cuda_source(name: str, nests: list[Nest], options: CudaOptions, title: str) -> str:
    """The whole file."""
    raise NotImplementedError
