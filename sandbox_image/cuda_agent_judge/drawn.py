"""The reference worker's inputs, drawn into its own memory; from there they are copied for the candidate worker.

The submission's process can write to its copy; nothing that the reference or a baseline computes on comes from there.
"""

from collections.abc import Callable
from typing import Any

import torch

from cuda_agent_judge import buffers, drawing, operator, trees
from cuda_agent_judge.cudart import Cudart
from cuda_agent_judge.runner import Inputs

Draw = Callable[[int], Any]
"""Inputs by seed."""


class Drawn:
    """Inputs of one operator: their layout, where they lie and what was drawn last."""

    def __init__(self, draw: Draw, seed: int, cudart: Cudart | None) -> None:
        self._draw_tree = draw
        self._first = draw(seed)
        leaves, spec = trees.flatten(self._first)
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        numbers = iter(range(len(tensors)))
        slots = tuple(next(numbers) if isinstance(leaf, torch.Tensor) else None for leaf in leaves)
        self.form = Inputs(spec, slots, buffers.layout(tensors))
        self._eligible = [drawing.unstructured(t) for t in tensors]
        self._device = "cpu" if cudart is None else "cuda"
        self.take_memory()
        self.values: list[Any] = []
        """The leaves, None in place of each tensor."""
        self._store(leaves)
        self.fixed = False
        self.hardened = False
        """Whether hard values take the place of the native ones."""

    def take_memory(self) -> None:
        """Make room for what is drawn."""
        self.master = torch.zeros(self.form.layout.size, dtype=torch.uint8, device=self._device)

    def give_memory(self) -> None:
        """Let what was drawn go."""
        self.master = torch.empty(0, dtype=torch.uint8)

    @property
    def may_be_signed(self) -> bool:
        """Whether any input is one whose signs may be drawn."""
        return any(self._eligible)

    def take_first(self) -> Any:
        """The first inputs drawn, once: they are not kept."""
        first, self._first = self._first, None
        return first

    def see_if_fixed(self, seed: int) -> None:
        """Learn whether get_inputs() gives the same values on every call: then signs are drawn instead."""
        before = self._sums_of(self.master)
        self._store(trees.flatten(self._draw_tree(seed))[0])
        self.fixed = bool(before) and before == self._sums_of(self.master)

    def draw(self, variant: str, seed: int) -> None:
        """Draw inputs."""
        if variant == "sparse":
            generator = torch.Generator().manual_seed(seed)
            for leaf, plain in zip(self.form.layout.leaves, self._eligible, strict=True):
                if plain:
                    drawing.make_sparse(leaf.raw(self.master), generator)
            return
        self._store(trees.flatten(self._draw_tree(seed))[0])
        for leaf, plain in zip(self.form.layout.leaves, self._eligible, strict=True):
            if plain and self.hardened:
                drawing.make_hard(leaf.view(leaf.raw(self.master)))
            elif plain and variant == "signed":
                drawing.make_signed(leaf.view(leaf.raw(self.master)))
            elif self.fixed:
                drawing.flip_signs(leaf.raw(self.master), seed)

    def put(self, drawn: torch.Tensor, values: list[Any]) -> None:
        """Take what was drawn before."""
        self.master.copy_(drawn)
        self.values = values

    def tensors(self) -> list[torch.Tensor]:
        """The drawn tensors themselves."""
        return [leaf.view(leaf.raw(self.master)) for leaf in self.form.layout.leaves]

    def _store(self, leaves: list[Any]) -> None:
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        for leaf, tensor in zip(self.form.layout.leaves, tensors, strict=True):
            if tuple(tensor.shape) != leaf.shape or tuple(tensor.stride()) != leaf.strides:
                raise operator.OperatorFault(
                    f"get_inputs() in {operator.FILE} gives other shapes on another call; give the same each time"
                )
            leaf.raw(self.master).copy_(buffers.extent_of(tensor))
        self.values = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]

    def _sums_of(self, area: torch.Tensor) -> list[int]:
        return buffers.checksums(self.form.layout, area)
