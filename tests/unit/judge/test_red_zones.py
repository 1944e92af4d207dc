"""Writes out of bounds are found by guard bands, and without them pass; honest submissions pass with them."""

import ctypes
from collections.abc import Callable

import pytest
import torch
from judging import SCALE, Answer, Bench, Judge, invoke, model_new

from cuda_agent_judge import policy, red_zones
from cuda_agent_judge.red_zones import RedZones

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
#include <cstring>
#include "../binding_registry.h"

enum Fault { ELEMENT_BEHIND, ELEMENT_BEFORE, TILE_BEHIND, IN_SCRATCH, IN_INPUT, IN_SECOND, IN_BYTES };

// What it clears breaks nothing visible where no bands are: the C library leaves 8 bytes free behind a tensor of these
// sizes, and the word before it is the size, whose upper half is 0 as it is.
static void clear(const Tensor& t, int64_t at, int64_t bytes) {
  memset(static_cast<char*>(t.mutable_data_ptr()) + at, 0, bytes);
}

std::tuple<Tensor, Tensor> twice(const Tensor& x, int64_t faults) {
  Tensor y = empty_like(x), z = new_empty(x, {x.size(0), x.size(1)}), scratch = new_empty(x, {x.numel()});
  Tensor mask = new_empty(x, {x.numel()}, ScalarType::Char), tiled = new_empty(x, {x.numel() + 1}, ScalarType::Char);
  const int64_t count = x.numel(), bytes = 4 * count, tile = 8;
  const float* from = in<float>(x);
  for (int64_t i = 0; i < count; ++i) {
    out<int8_t>(mask)[i] = from[i] > 0;
    out<float>(scratch)[i] = out<int8_t>(mask)[i] ? from[i] : 0;
    out<float>(y)[i] = 2 * out<float>(scratch)[i];
    out<float>(z)[i] = out<float>(scratch)[i];
  }
  const int64_t whole = faults >> TILE_BEHIND & 1 ? tiled.numel() + tile - 1 : tiled.numel();
  for (int64_t i = 0; i < whole / tile; ++i) clear(tiled, i * tile, tile);
  if (faults >> ELEMENT_BEHIND & 1) clear(y, bytes, 4);
  if (faults >> ELEMENT_BEFORE & 1) clear(y, -4, 4);
  if (faults >> IN_SCRATCH & 1) clear(scratch, bytes, 8);
  if (faults >> IN_INPUT & 1) clear(x, bytes, 4);
  if (faults >> IN_SECOND & 1) clear(z, bytes, 4);
  if (faults >> IN_BYTES & 1) clear(mask, count, 1);
  return {y, z};
}
REGISTER_KERNEL(twice, "(Tensor x, int faults) -> (Tensor, Tensor)");
"""
}
OWN = "a tensor that it allocated, of shape"
FAULTS = {
    "one element behind": "4 bytes behind the end of output 0, of shape [8200, 32] float32, up to 4 bytes past it",
    "one element before": "4 bytes before the start of output 0, of shape [8200, 32] float32, up to 4 bytes before it",
    "a whole tile in place of a part": f"7 bytes behind the end of {OWN} [262401] int8, up to 7 bytes past it",
    "in a scratch tensor": f"8 bytes behind the end of {OWN} [262400] float32, up to 8 bytes past it",
    "in an input": "4 bytes behind the end of input 0, of shape [8200, 32] float32, up to 4 bytes past it",
    "in the second output": "4 bytes behind the end of output 1, of shape [8200, 32] float32, up to 4 bytes past it",
    "in an int8 tensor": f"1 byte behind the end of {OWN} [262400] int8, up to 1 byte past it",
}


def calling(*faults: int) -> str:
    """A submission that makes these faults."""
    bits = sum(1 << fault for fault in faults)
    return model_new(f"return cuda_extension.twice(x, {bits})", head="import cuda_extension")


@pytest.fixture(scope="module", params=[True, False])
def judged(bench: Bench, request: pytest.FixtureRequest) -> Answer:
    """A submission that makes every fault, judged with bands and without."""
    session = bench.session(OPERATOR, {"libraries": "vendor"})
    workspace = session / "workspace"
    (workspace / "kernels").mkdir(parents=True, exist_ok=True)
    (workspace / "kernels/twice_binding.cpp").write_text(KERNEL["twice_binding.cpp"])
    (workspace / "model_new.py").write_text(calling(*range(len(FAULTS))))
    off = None if request.param else {"red_zones": False}
    return invoke(session, workspace, "verify", session / "report.json", defences=off)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("judged", [True], indirect=True)
def test_a_write_out_of_bounds_is_told(judged: Answer, fault: str) -> None:
    assert (judged.report.status, judged.code) == ("incorrect", 1), judged.report
    assert f"forward wrote {FAULTS[fault]}; check " in judged.report.details


@pytest.mark.parametrize("judged", [False], indirect=True)
def test_without_bands_each_of_these_faults_passes(judged: Answer) -> None:
    assert (judged.report.status, judged.code) == ("correct", 0), judged.report


@pytest.mark.parametrize(("faults", "status"), [((), "correct"), ((6,), "incorrect")])
def test_one_fault_is_enough(judge: Judge, faults: tuple[int, ...], status: str) -> None:
    answer = judge(calling(*faults), operator=OPERATOR, kernels=KERNEL, libraries="vendor")
    assert answer.report.status == status, answer.report
    assert answer.report.reason.startswith("forward wrote 1 byte behind") == bool(faults)


ANY_OPERATOR = SCALE.replace("256, 1024", "256, 1021")
WRITES_BEHIND = """
y = torch.zeros_like(x)
y.copy_(torch.relu(x) * 2)
ctypes.memset(y.data_ptr() + 4 * y.numel(), 0, 4)
return y
"""
READS_BEHIND = """
y = torch.relu(x) * 2
behind = ctypes.c_float.from_address(x.data_ptr() + 4 * x.numel()).value
y[-1, -1] += 1e6 if behind != behind else 0
return y
"""
GROWS = "y = torch.empty(4)\ny.resize_(x.shape).copy_(torch.relu(x) * 2)\nreturn y"
KEEPS = """
self.kept.append(torch.empty_like(x).copy_(torch.relu(x)))
self.kept[0].copy_(x)
del self.kept[:-2]
return self.kept[-1] * 2
"""


@pytest.mark.parametrize("body", [WRITES_BEHIND, READS_BEHIND])
def test_bands_stand_where_any_library_may_be_used_too(judge: Judge, body: str) -> None:
    source = model_new(body, head="import ctypes")
    answer = judge(source, operator=ANY_OPERATOR)
    assert answer.report.status == "incorrect", answer.report
    assert "forward wrote 4 bytes behind the end of the output" in answer.report.reason or "NaN" in answer.report.reason
    assert judge(source, operator=ANY_OPERATOR, defences={"red_zones": False}).report.status == "correct"


def test_a_call_that_fails_only_between_bands_is_not_held_against_it(judge: Judge) -> None:
    answer = judge(model_new(GROWS), operator=ANY_OPERATOR)
    assert (answer.report.status, answer.code) == ("correct", 0), answer.report
    assert "not resizable" in " ".join(answer.report.notes)


def test_tensors_that_outlive_the_call_stay_what_they_are(judge: Judge) -> None:
    answer = judge(model_new(KEEPS, init="self.kept = []"), operator=ANY_OPERATOR)
    assert (answer.report.status, answer.report.notes) == ("correct", []), answer.report


A = torch.rand(4, 6, 5, 3)
LAST = A.to(memory_format=torch.channels_last)
ALLOCATIONS: dict[str, Callable[[], torch.Tensor]] = {
    "empty": lambda: torch.empty(3, 5),
    "channels last": lambda: torch.empty(2, 3, 4, 5, memory_format=torch.channels_last),
    "like channels last": lambda: torch.empty_like(LAST),
    "strides with gaps": lambda: torch.empty_strided((3, 5), (7, 1)),
    "overlapping strides": lambda: torch.empty_strided((3, 5), (0, 1)),
    "permuted": lambda: torch.empty_permuted((2, 3, 4), (2, 0, 1)),
    "new": lambda: A.new_empty((3,), dtype=torch.int64),
    "a number": lambda: torch.zeros(()),
    "bool": lambda: torch.ones(7, dtype=torch.bool),
    "int8": lambda: torch.zeros(13, dtype=torch.int8),
    "half": lambda: torch.full((3, 3), 2.5, dtype=torch.half),
    "complex": lambda: torch.zeros(5, dtype=torch.complex64),
    "fp8": lambda: torch.zeros(5, dtype=torch.float8_e4m3fn),
    "clone": lambda: LAST.clone(),
    "contiguous": lambda: LAST.contiguous(),
    "converted": lambda: A.to(torch.double),
    "transposed copy": lambda: A.transpose(0, 3).clone(memory_format=torch.preserve_format),
    "not dense": lambda: A[:, ::2].to(torch.int32),
    "counted": lambda: torch.arange(9),
    "parameter": lambda: torch.empty_like(torch.nn.Parameter(A)),
}


BARE = {name for name in ALLOCATIONS if name.startswith(("empty", "like", "strides", "overlapping", "permuted", "new"))}
BARE |= {"channels last", "parameter"}


@pytest.mark.parametrize("name", ALLOCATIONS)
def test_a_tensor_between_bands_is_like_any_other(name: str) -> None:
    zones, make = RedZones(lambda: None), ALLOCATIONS[name]
    with torch.no_grad(), policy.Audit(zones):
        made = make()
    plain = make()
    assert (made.size(), made.stride(), made.storage_offset()) == (plain.size(), plain.stride(), 0)
    assert (made.dtype, made.device, type(made)) == (plain.dtype, plain.device, type(plain))
    storage = made.untyped_storage()
    assert (storage.nbytes(), storage.data_ptr() % 64) == (plain.untyped_storage().nbytes(), 0)
    if name not in BARE:
        assert torch.equal(made.to(torch.complex128), plain.to(torch.complex128))
    made.fill_(1)
    assert zones.faults([made]) == []
    for outside in (storage.nbytes(), -1):
        ctypes.memset(storage.data_ptr() + outside, 0, 1)
    found = [(fault.behind, fault.written, fault.farthest) for fault in zones.faults([made])]
    assert found == [(True, 1, 1), (False, 1, 1)]


UNGUARDED: dict[str, Callable[[], torch.Tensor]] = {
    "no elements": lambda: torch.empty(0),
    "no rows": lambda: torch.empty(0, 5),
    "elsewhere": lambda: torch.empty(3, device="meta"),
    "sparse": lambda: torch.zeros(3, layout=torch.sparse_coo),
    "into another": lambda: torch.ones(3, out=torch.empty(0)),
    "grown from nothing": lambda: torch.empty(0).resize_(5).zero_(),
}


@pytest.mark.parametrize("name", UNGUARDED)
def test_what_gets_no_bands_is_made_as_ever(name: str) -> None:
    zones, make = RedZones(lambda: None, {"cpu": 0}), UNGUARDED[name]
    with policy.Audit(zones):
        made = make()
    assert (made.shape, made.layout, made.device) == (make().shape, make().layout, make().device)


@pytest.mark.parametrize(("start", "size"), [(128, 768), (-4096, 64), (0, 1 << 14), (1 << 14, 4)])
def test_a_write_is_found_as_far_as_the_bands_reach(start: int, size: int) -> None:
    with policy.Audit(zones := RedZones(lambda: None)):
        rows, below = torch.empty(4104, 32), torch.zeros(64, 1024)
    at = start if start < 0 else rows.numel() * 4 + start
    ctypes.memset(rows.data_ptr() + at, 0, size)
    found = {(fault.behind, fault.written, fault.farthest) for fault in zones.faults([rows])}
    inside = start < red_zones.BAND_BYTES["cpu"]
    assert found == ({(start >= 0, size, start + size if start >= 0 else -start)} if inside else set())
    assert not below.any()


def test_a_view_beyond_itself_but_within_its_storage_is_in_bounds() -> None:
    with policy.Audit(zones := RedZones(lambda: None)):
        row = torch.zeros(4, 8)[1]
    row.as_strided((24,), (1,)).fill_(1)
    assert zones.faults([]) == []


def test_memory_of_tensors_that_are_gone_is_looked_at_and_given_back() -> None:
    waited: list[None] = []
    zones = RedZones(lambda: waited.append(None), {"cpu": 1 << 20})
    with policy.Audit(zones):
        kept = [torch.full((64, 1024), float(index)) for index in range(2)]
        for index in range(40):
            gone = torch.empty(64, 1024)
            ctypes.memset(gone.data_ptr() + gone.numel() * 4, 0, 4 if index == 3 else 0)
    assert len(waited) > 5
    assert [fault.written for fault in zones.faults([gone])] == [4]
    assert [float(tensor.sum()) for tensor in kept] == [0.0, 65536.0]


def test_memory_is_given_back_once_and_that_is_told_then_alone() -> None:
    zones = RedZones(lambda: None)
    with policy.Audit(zones):
        output, scratch = torch.empty(64), torch.empty(64)
    assert not zones.let_go()
    del scratch
    assert zones.let_go()
    assert not zones.let_go()  # as behind each timed call, where the output is still held
    del output
    assert zones.let_go()
    assert not zones.let_go()


def test_bands_never_take_more_than_their_room() -> None:
    zones = RedZones(lambda: None, {"cpu": 20 * red_zones.BAND_BYTES["cpu"]})
    with policy.Audit(zones):
        many = [torch.zeros(1) for _ in range(30)]
        large = torch.ones(1 << 20)
    assert [float(tensor.sum()) for tensor in (*many, large)] == [0.0] * 30 + [float(1 << 20)]
    for tensor in many[:9]:
        ctypes.memset(tensor.data_ptr() + 4, 0, 4)
    assert len(zones.faults([])) == 9
