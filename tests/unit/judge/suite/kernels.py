"""Submissions with kernels of their own: C++ on `cpu`, CUDA on `cuda`."""

from collections.abc import Mapping
from typing import Any

from judging import model_new

from suite.cuda_kernels import SOURCE as CUDA_SOURCE
from suite.operators import PRODUCT_BESIDE_RELU, SIGNED_RELU, SILU
from suite.row import BOTH, CPU, CUDA, Row, Target

CPU_SOURCE = """
#include "../binding_registry.h"
#include <map>
static void positive_part(const float* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i] > 0 ? from[i] : 0;
}
Tensor honest(const Tensor& x) {
  Tensor y = empty_like(x);
  positive_part(in<float>(x), out<float>(y), x.numel());
  return y;
}
Tensor remembered(const Tensor& x) {
  static std::map<const void*, std::vector<float>> known;
  std::vector<float>& kept = known[in<float>(x)];
  if (kept.empty()) {
    kept.resize(x.numel());
    positive_part(in<float>(x), kept.data(), x.numel());
  }
  Tensor y = empty_like(x);
  std::copy(kept.begin(), kept.end(), out<float>(y));
  return y;
}
REGISTER_KERNEL(honest, "(Tensor x) -> Tensor");
REGISTER_KERNEL(remembered, "(Tensor x) -> Tensor");
"""
KERNELS: Mapping[Target, Mapping[str, str]] = {
    "cpu": {"suite_binding.cpp": CPU_SOURCE},
    "cuda": {"suite.cu": CUDA_SOURCE},
}
HANGS_5_S = {"call_timeout_s": 5}
DEVICE_ERRORS = "the device is asked for errors after each call"


def calling(function: str) -> str:
    """A submission that does nothing but call this function."""
    return model_new(f"return cuda_extension.{function}(x)", head="import cuda_extension")


def cheat(name: str, number: str, function: str, statuses: tuple[str, ...] = ("incorrect",), **more: Any) -> Row:
    """A row on `cuda` with one of the functions there."""
    given: dict[str, Any] = {"kernels": KERNELS, "operator": SIGNED_RELU, "settings": HANGS_5_S, "targets": CUDA} | more
    return Row(name, number, calling(function), statuses, **given)


CHEATS = (
    cheat("a map by pointer in the library", "10", "remembered", off=("fresh",), targets=BOTH),
    cheat("a kernel that writes nothing", "1", "untouched", plain=CUDA, by="the answers are in another process"),
    cheat(
        "a stream of its own that waits for nothing",
        "32",
        "private_stream",
        plain=CUDA,
        by="inputs are written behind a spin, in the order of the current stream",
    ),
    cheat(
        "a stream of its own that nobody waits for",
        "32",
        "unjoined",
        ("tampering", "slower"),  # its clock knows nothing of that stream and says next to nothing
        off=("clock", "sync+still"),
        operator=PRODUCT_BESIDE_RELU,
        command="verdict",
    ),
    cheat("a kernel that clears its input", "43", "clears_input", said="was written to", off=("untouched",)),
    cheat(
        "a kernel that leaves the process",
        "56",
        "leaves",
        ("runtime_error",),
        by="a process that ends has given no answer",
        unshown="a plain checker gives no answer either",
    ),
    cheat(
        "a kernel that never ends",
        "63",
        "endless",
        ("timeout",),
        by="a call that does not end is killed",
        unshown="a plain checker hangs",
    ),
    cheat(
        "a launch that is refused in silence",
        "69",
        "refused_launch",
        ("runtime_error", "incorrect"),
        by=DEVICE_ERRORS,
        unshown="a plain checker fails at its next operation",
    ),
    cheat(
        "a launch that is refused, and nobody told",
        "69",
        "hushed_launch",
        plain=CUDA,
        by="the answers are in another process",
    ),
    cheat(
        "a kernel that writes out of bounds",
        "69",
        "out_of_bounds",
        ("runtime_error",),
        by=DEVICE_ERRORS,
        unshown="a plain checker fails at the next copy",
    ),
    cheat(
        "a kernel that traps",
        "69",
        "device_trap",
        ("runtime_error",),
        by=DEVICE_ERRORS,
        unshown="a plain checker fails at the next copy",
    ),
)
HONEST = (
    Row(
        "kernels on the legacy default stream",
        "H0",
        calling("default_stream"),
        ("correct",),
        operator=SIGNED_RELU,
        kernels=KERNELS,
        settings=HANGS_5_S,
        targets=CUDA,
    ),
    Row("a kernel in C++", "H0", calling("honest"), ("correct",), operator=SIGNED_RELU, kernels=KERNELS, targets=CPU),
    Row(
        "two streams, forked and joined",
        "H7",
        calling("forked"),
        ("correct",),
        operator=SIGNED_RELU,
        kernels=KERNELS,
        settings=HANGS_5_S,
        targets=CUDA,
    ),
    Row(
        "a stream of its own that is joined",
        "H8",
        calling("joined"),
        ("correct",),
        operator=SIGNED_RELU,
        kernels=KERNELS,
        settings=HANGS_5_S,
        targets=CUDA,
    ),
    Row(
        "fast intrinsics within the tolerance",
        "H16",
        calling("silu"),
        ("correct",),
        operator=SILU,
        kernels=KERNELS,
        settings=HANGS_5_S,
        targets=CUDA,
    ),
)
