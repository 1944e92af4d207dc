"""Submissions with kernels of their own, and what the policy makes of library calls."""

from judging import LINEAR, SCALE, Judge, model_new

KERNEL = {
    "twice_binding.cpp": """
#include "../binding_registry.h"
Tensor twice(const Tensor& x) {
  Tensor y = empty_like(x);
  const float* from = in<float>(x);
  float* to = out<float>(y);
  for (int64_t i = 0; i < x.numel(); ++i) to[i] = from[i] > 0 ? 2 * from[i] : 0;
  return y;
}
REGISTER_KERNEL(twice, "(Tensor x) -> Tensor");
"""
}
KERNEL_LAUNCHER = """
#include <cstdint>
extern "C" void twice_launcher(float* out, const float* in, int64_t size) {
  for (int64_t i = 0; i < size; ++i) out[i] = in[i] > 0 ? 2 * in[i] : 0;
}
"""
IMPORT = "import cuda_extension"
LINEAR_NEW = """
import torch
class ModelNew(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.{name} = torch.nn.Linear(width, width)
    def forward(self, x):
        {before}
        return self.{name}(x)
"""


def test_a_kernel_of_its_own_passes_and_is_compiled_once(judge: Judge) -> None:
    source = model_new("return cuda_extension.twice(x)", head=IMPORT)
    first = judge(source, kernels=KERNEL, libraries="vendor", command="compile")
    assert (first.report.status, first.code) == ("compiled", 0), first.report
    assert f"[TIME] Compilation took {first.report.build_s:.2f}s\n" in first.stdout
    answer = judge(source, kernels=KERNEL, libraries="vendor")
    assert (answer.report.status, answer.code) == ("correct", 0), answer.report
    assert answer.report.submission_sha256 == first.report.submission_sha256 != ""


def test_views_allocations_and_copies_around_a_kernel_are_no_library_compute(judge: Judge) -> None:
    body = "y = torch.empty_like(x)\ny.view(-1).copy_(cuda_extension.twice(x.reshape(-1).contiguous()))\nreturn y"
    answer = judge(model_new(body, head=IMPORT), kernels=KERNEL, libraries="vendor")
    assert answer.report.status == "correct", answer.report


def test_pytorch_compute_is_policy(judge: Judge) -> None:
    answer = judge(model_new("return cuda_extension.twice(x) + 0", head=IMPORT), kernels=KERNEL, libraries="vendor")
    assert (answer.report.status, answer.code) == ("policy", 1), answer.report
    assert "aten::add" in answer.report.reason


def test_a_kernel_that_is_never_called_is_policy(judge: Judge) -> None:
    answer = judge(model_new("return torch.relu(x) * 2", head=IMPORT), kernels=KERNEL, libraries="vendor")
    assert answer.report.status == "policy"
    copied = judge(model_new("return x.clone()", head=IMPORT), operator=COPY, kernels=KERNEL, libraries="vendor")
    assert (copied.report.status, "none of" in copied.report.reason) == ("policy", True), copied.report


def test_pytorch_compute_inside_a_kernel_is_policy(judge: Judge) -> None:
    hidden = {
        "twice_binding.cpp": KERNEL["twice_binding.cpp"].replace(
            "  return y;",
            "  StableIValue a[2] = {torch::stable::detail::from(y), torch::stable::detail::from(y)};\n"
            '  aoti_torch_call_dispatcher("aten::maximum", "", a);\n  return torch::stable::detail::to<Tensor>(a[0]);',
        )
    }
    answer = judge(model_new("return cuda_extension.twice(x)", head=IMPORT), kernels=hidden, libraries="vendor")
    assert answer.report.status == "policy", answer.report


def test_torch_compile_is_policy(judge: Judge) -> None:
    body = "return cuda_extension.twice(self.f(x))"
    init = "self.f = torch.compile(lambda x: x.view(x.shape))"
    answer = judge(model_new(body, head=IMPORT, init=init), kernels=KERNEL, libraries="vendor")
    assert answer.report.status == "policy", answer.report


def test_a_kernel_that_does_not_compile_shows_the_compilers_words(judge: Judge) -> None:
    broken = {"twice_binding.cpp": KERNEL["twice_binding.cpp"].replace("float* to", "flaot* to")}
    answer = judge(model_new("return x", head=IMPORT), kernels=broken, command="compile")
    assert (answer.report.status, answer.code) == ("compile_error", 1)
    assert "flaot" in answer.report.details


def test_weights_arrive_under_the_references_names(judge: Judge) -> None:
    answer = judge(LINEAR_NEW.format(name="linear", before="pass"), operator=LINEAR)
    assert answer.report.status == "correct", answer.report
    renamed = judge(LINEAR_NEW.format(name="dense", before="pass"), operator=LINEAR)
    assert renamed.report.status == "runtime_error"
    assert "same names" in renamed.report.reason
    assert "linear.weight" in renamed.report.reason


def test_weights_that_forward_changes_are_refused(judge: Judge) -> None:
    changed = judge(LINEAR_NEW.format(name="linear", before="self.linear.bias.add_(0.0001)"), operator=LINEAR)
    assert changed.report.status == "incorrect", changed.report


COPY = SCALE.replace("torch.relu(x) * 2", "x.clone()")


# The binding style of the published system: a registry, and pybind11 behind torch's light headers.
PUBLISHED = {
    "twice.cpp": KERNEL_LAUNCHER,
    "twice_binding.cpp": """
#include <torch/types.h>
#include <torch/csrc/utils/pybind.h>
#include "../binding_registry.h"

extern "C" void twice_launcher(float* out, const float* in, int64_t size);

static torch::Tensor twice_forward(torch::Tensor x, int config = 0) {
  TORCH_CHECK(x.is_contiguous(), "x must be contiguous");
  auto out = torch::empty_like(x);
  twice_launcher(out.data_ptr<float>(), x.data_ptr<float>(), x.numel());
  return out;
}

static void register_twice(pybind11::module& m) {
  m.def("twice_forward", &twice_forward, py::arg("x"), py::arg("config") = 0);
}

REGISTER_BINDING(twice, register_twice);
""",
}


def test_the_published_binding_style_builds_and_is_judged(judge: Judge) -> None:
    source = model_new("return cuda_extension.twice_forward(x, config=1)", head=IMPORT)
    answer = judge(source, kernels=PUBLISHED, libraries="vendor")
    assert (answer.report.status, answer.code) == ("correct", 0), answer.report
    beyond = PUBLISHED | {"twice.cpp": KERNEL_LAUNCHER.replace("i < size", "i <= size")}
    faulty = judge(source, kernels=beyond, libraries="vendor")
    assert faulty.report.status == "incorrect", faulty.report
    assert faulty.report.reason.startswith("forward wrote 4 bytes behind the end of the output, of shape [256, 1024]")


INLINE = """
from torch.utils.cpp_extension import load_inline
SOURCE = '''
#include <torch/types.h>
torch::Tensor twice(torch::Tensor x) {
  auto y = torch::empty_like(x);
  const float* in = x.data_ptr<float>();
  float* out = y.data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) out[i] = in[i] > 0 ? 2 * in[i] : 0;
  return y;
}
'''
extension = load_inline(name="inline_extension", cpp_sources=[SOURCE], functions=["twice"])
"""


def test_a_single_file_that_builds_its_kernel_by_itself_is_judged(judge: Judge) -> None:
    answer = judge(model_new("return extension.twice(x)", head=INLINE), libraries="vendor")
    assert (answer.report.status, answer.code) == ("correct", 0), answer.report
