"""Fresh inputs: the operator's own, and harder ones in their place where its inputs carry no structure.

`native` is what get_inputs() draws. `signed` replaces unstructured floating inputs by normal values of both signs whose
rows differ in scale, so that a kernel that returns its input, or knows its distribution, is seen. `sparse` changes one
element of each floating input of the call before. Where a constant passes for what `native` values give (a loss over
many of them), `hard` values take their place: signed, and at another scale in each draw.
"""

import torch

_ASSERTING = ("binary_cross_entropy", "bernoulli", "multinomial")
"""On a GPU these abort the context when a value leaves their domain."""

HARDENED = (
    "a constant passes for the values that get_inputs() draws: normal values, at another scale in each call, take the "
    "place of its floating-point inputs"
)
_SAMPLE, _BLOCK = 1 << 22, 1024


def may_be_signed(operations: set[str]) -> bool:
    """Whether an operator made of these ATen operations survives values outside its inputs' native range."""
    return not any(name in operation for operation in operations for name in _ASSERTING)


def unstructured(tensor: torch.Tensor) -> bool:
    """Whether a floating input looks like plain random numbers: nothing a kernel could rightly count on."""
    if not tensor.is_floating_point() or tensor.numel() < 16 or tensor.dim() == 0 or 0 in tensor.stride():
        return False
    values = _some_rows(tensor.detach())
    zeros = float((values == 0).float().mean())
    if zeros > 0.01 or bool((values == values.round()).all()):
        return False
    if tensor.dim() >= 2 and tensor.shape[-1] == tensor.shape[-2]:
        block = tensor.detach()[..., :_BLOCK, :_BLOCK].float()
        if torch.allclose(block, block.transpose(-1, -2)):
            return False
    sums = values.sum(-1)
    if values.shape[-1] > 1 and torch.allclose(sums, torch.ones_like(sums), rtol=1e-3):
        return False
    first = values.reshape(-1)[:4096]
    ascending = bool((first[1:] >= first[:-1]).all()) or bool((first[1:] <= first[:-1]).all())
    return not ascending and int(first.unique().numel()) > min(first.numel(), 64) // 2  # type: ignore[no-untyped-call]


def _some_rows(tensor: torch.Tensor) -> torch.Tensor:
    """Whole rows from all over a tensor, about four million elements at most."""
    if tensor.dim() == 1:
        return tensor[:_SAMPLE].float().unsqueeze(0)
    rows = tensor.reshape(-1, tensor.shape[-1]) if tensor.is_contiguous() else tensor.flatten(0, -2)
    return rows[:: max(1, tensor.numel() // _SAMPLE)].float()


def make_signed(tensor: torch.Tensor) -> None:
    """Overwrite a tensor with normal values, each row at a scale of its own between 1/2 and 2."""
    values = torch.randn(tensor.shape, dtype=torch.float32, device=tensor.device)
    if tensor.dim() > 1:
        values *= torch.exp2(torch.rand((*tensor.shape[:-1], 1), device=tensor.device) * 2 - 1)
    tensor.copy_(values)


def make_hard(tensor: torch.Tensor) -> None:
    """Overwrite a tensor with signed values at one scale between 1/4 and 4: even their mean is another in each draw."""
    make_signed(tensor)
    tensor.mul_(float(torch.exp2(torch.rand(()) * 4 - 2)))


def make_sparse(raw: torch.Tensor, generator: torch.Generator) -> None:
    """Change one element of a flat extent to something clearly different."""
    if raw.is_floating_point() and raw.numel():
        index = int(torch.randint(raw.numel(), (), generator=generator))
        raw[index] = 3.0 - 2.0 * raw[index]


def flip_signs(raw: torch.Tensor, seed: int) -> None:
    """Give a floating tensor random signs: the only fresh values where get_inputs() has none."""
    if raw.is_floating_point():
        generator = torch.Generator(raw.device).manual_seed(seed)
        bits = torch.randint(0, 2, raw.shape, generator=generator, dtype=torch.int8, device=raw.device)
        raw.copy_(raw.abs() * (bits * 2 - 1))
