"""Kernels that write out of bounds are found by guard bands, and without them pass; honest ones pass with them."""

import pytest
from judging import Judge, model_new

OPERATOR = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2, torch.relu(x)
def get_inputs():
    return [torch.rand(8200, 32)]
"""
KERNEL = {
    "twice_binding.cpp": r"""
#include <malloc.h>
#include <cstring>
#include "../binding_registry.h"

// Every tensor has pages of its own, so that what a fault overwrites is nobody's and nothing visible breaks.
static const int own_pages = mallopt(M_MMAP_THRESHOLD, 1 << 16);

enum Fault { NONE, ELEMENT_BEHIND, BYTES_BEFORE, TILE_BEHIND, IN_SCRATCH, IN_INPUT, IN_SECOND, IN_BYTES };
constexpr int64_t TILE = 16;

static void clear(const Tensor& t, int64_t at, int64_t bytes) {
  memset(static_cast<char*>(t.mutable_data_ptr()) + at, 0, bytes);
}

std::tuple<Tensor, Tensor> twice(const Tensor& x, int64_t fault) {
  Tensor y = empty_like(x), z = new_empty(x, {x.size(0), x.size(1)}), scratch = new_empty(x, {x.numel()});
  Tensor mask = new_empty(x, {x.numel()}, ScalarType::Char);
  const int64_t count = x.numel(), width = x.size(1), bytes = 4 * count;
  const float* from = in<float>(x);
  for (int64_t i = 0; i < count; ++i) {
    out<int8_t>(mask)[i] = from[i] > 0;
    out<float>(scratch)[i] = out<int8_t>(mask)[i] ? from[i] : 0;
    out<float>(y)[i] = 2 * out<float>(scratch)[i];
    out<float>(z)[i] = out<float>(scratch)[i];
  }
  if (fault == ELEMENT_BEHIND) clear(y, bytes, 4);
  if (fault == BYTES_BEFORE) clear(y, -32, 8);
  if (fault == TILE_BEHIND) clear(y, bytes, ((x.size(0) + TILE - 1) / TILE * TILE - x.size(0)) * width * 4);
  if (fault == IN_SCRATCH) clear(scratch, bytes, 12);
  if (fault == IN_INPUT) clear(x, bytes, 4);
  if (fault == IN_SECOND) clear(z, bytes, 4);
  if (fault == IN_BYTES) clear(mask, count, 1);
  return {y, z};
}
REGISTER_KERNEL(twice, "(Tensor x, int fault) -> (Tensor, Tensor)");
"""
}
FAULTS = ("element behind", "bytes before", "tile behind", "in scratch", "in input", "in second", "in bytes")


@pytest.mark.parametrize("fault", FAULTS)
def test_fault(judge: Judge, fault: str) -> None:
    source = model_new(f"return cuda_extension.twice(x, {FAULTS.index(fault) + 1})", head="import cuda_extension")
    answer = judge(source, operator=OPERATOR, kernels=KERNEL, libraries="vendor")
    print(answer.report.reason, answer.report.phases)
    assert answer.report.status == "incorrect", answer.report
    answer = judge(source, operator=OPERATOR, kernels=KERNEL, libraries="vendor", defences={"red_zones": False})
    print(answer.report.phases)
    assert answer.report.status == "correct", answer.report
