"""The areas of one judgement that a submission's process can write to: inputs, outputs and weights."""

from collections.abc import Iterable

import torch

from cuda_agent_judge import buffers
from cuda_agent_judge.cudart import Cudart


class Lent:
    """Shared areas; they end with the judgement."""

    def __init__(
        self,
        inputs: buffers.Layout,
        outputs: buffers.Layout,
        state: Iterable[torch.Tensor],
        cudart: Cudart | None,
        *,
        ipc: bool,
    ) -> None:
        """Without `ipc` no device memory is handed to another process."""
        tensors = list(state)
        self._cudart = cudart
        self._inputs = inputs
        self._outputs = outputs
        self.state_layout = buffers.layout(tensors)
        self._slot = buffers.create(inputs.size, cudart, ipc=ipc)
        self._landing = buffers.create(outputs.size, cudart, ipc=ipc)
        self._state = buffers.create(self.state_layout.size, cudart, ipc=ipc)
        for leaf, tensor in zip(self.state_layout.leaves, tensors, strict=True):
            leaf.raw(self._state.bytes).copy_(buffers.extent_of(tensor))
        self._state_sums = buffers.checksums(self.state_layout, self._state.bytes)
        self._input_sums: list[int] = []

    @property
    def areas(self) -> tuple[buffers.Area, buffers.Area, buffers.Area]:
        """Slot, landing and weights."""
        return self._slot, self._landing, self._state

    @property
    def landing(self) -> torch.Tensor:
        """The bytes that the candidate worker leaves."""
        return self._landing.bytes

    def show(self, drawn: torch.Tensor) -> None:
        """Let the candidate worker see what was drawn."""
        self._slot.bytes.copy_(drawn)
        self._input_sums = buffers.checksums(self._inputs, drawn)

    def changed_inputs(self) -> list[bool]:
        """Which inputs came back other than they went out."""
        sums = buffers.checksums(self._inputs, self._slot.bytes)
        return [a != b for a, b in zip(self._input_sums, sums, strict=True)]

    def changed_state(self) -> list[bool]:
        """Which weights came back other than they went out."""
        sums = buffers.checksums(self.state_layout, self._state.bytes)
        return [a != b for a, b in zip(self._state_sums, sums, strict=True)]

    def landed(self) -> list[torch.Tensor]:
        """The outputs that were left."""
        return [leaf.view(leaf.raw(self.landing)) for leaf in self._outputs.leaves]

    def landed_sums(self) -> list[int]:
        """Checksums of what was left."""
        return buffers.checksums(self._outputs, self.landing)

    def poison(self) -> None:
        """Fill the landing with what nobody means to return."""
        for leaf in self._outputs.leaves:
            buffers.poison(self.landing, leaf)
        if self._cudart is not None:
            # The candidate worker's stream knows nothing of this one's.
            self._cudart.synchronize()

    def close(self) -> None:
        """Give device memory back; nobody may have it open any more."""
        for area in self.areas:
            if self._cudart is not None and area.address is not None:
                self._cudart.free(area.address)
