"""The vendor's libraries from C++: allowed under `vendor`, refused by name under `own`."""

import subprocess
from pathlib import Path

import pytest
from judging import Judge, model_new

from cuda_agent_judge.symbols import undefined_symbols, vendor_calls
from cuda_agent_judge.toolchain import Cuda, Toolchain

PRODUCT = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x @ x)
def get_inputs():
    return [torch.randn(96, 96)]
"""
SGEMM = """
extern "C" void sgemm_(const char*, const char*, const int*, const int*, const int*, const float*, const float*,
                       const int*, const float*, const int*, const float*, float*, const int*);
static void product(const float* x, float* y, int n) {
  const float one = 1, zero = 0;
  sgemm_("N", "N", &n, &n, &n, &one, x, &n, x, &n, &zero, y, &n);
  for (int i = 0; i < n * n; ++i) y[i] = y[i] > 0 ? y[i] : 0;
}
"""
KERNEL = {
    "product_binding.cpp": f"""
#include "../binding_registry.h"
{SGEMM}
Tensor relu_product(const Tensor& x) {{
  Tensor y = empty_like(x);
  product(in<float>(x), out<float>(y), static_cast<int>(x.size(0)));
  return y;
}}
REGISTER_KERNEL(relu_product, "(Tensor x) -> Tensor");
"""
}
FORWARD = model_new("return cuda_extension.relu_product(x)", head="import cuda_extension")
MODULE = f"""#include <Python.h>
{SGEMM}
static PyObject* call(PyObject*, PyObject* args) {{
  unsigned long long x, y;
  int n;
  if (!PyArg_ParseTuple(args, "KKi", &x, &y, &n)) return nullptr;
  product(reinterpret_cast<const float*>(x), reinterpret_cast<float*>(y), n);
  Py_RETURN_NONE;
}}
static PyMethodDef methods[] = {{{{"product", call, METH_VARARGS, ""}}, {{nullptr, nullptr, 0, nullptr}}}};
static PyModuleDef module = {{PyModuleDef_HEAD_INIT, "built_here", "", -1, methods}};
PyMODINIT_FUNC PyInit_built_here() {{ return PyModule_Create(&module); }}
"""
BUILT_HERE = model_new(
    "y = torch.empty_like(x)\nbuilt_here.product(x.data_ptr(), y.data_ptr(), x.shape[0])\nreturn y",
    head=f"""
import importlib.util, pathlib, subprocess, sysconfig, tempfile
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "built_here.cpp").write_text({MODULE!r})
torch_lib = pathlib.Path(torch.__path__[0]) / "lib"
subprocess.run(["g++", "-shared", "-fPIC", "-I" + sysconfig.get_path("include"), str(folder / "built_here.cpp"),
                "-o", str(folder / "built_here.so"), "-L" + str(torch_lib), "-ltorch_cpu"], check=True)
spec = importlib.util.spec_from_file_location("built_here", folder / "built_here.so")
built_here = importlib.util.module_from_spec(spec)
spec.loader.exec_module(built_here)
""",
)
CALLS = ["sgemm_", "DGEMM_", "cblas_sgemm", "cublasLtMatmul", "cublasSgemm_v2", "cudnnConvolutionForward", "dlopen"]
OWN = [
    "memcpy",
    "expf",
    "omp_get_thread_num",
    "GOMP_parallel",
    "aoti_torch_empty_strided",
    "cudaLaunchKernel",
    "my_sum",
]


def test_a_product_by_the_blas_that_torch_brings_along_is_allowed_under_vendor(judge: Judge) -> None:
    answer = judge(FORWARD, operator=PRODUCT, kernels=KERNEL, libraries="vendor")
    assert (answer.report.status, answer.code) == ("correct", 0), answer.report


def test_a_product_by_blas_is_refused_under_own_before_it_runs(judge: Judge) -> None:
    answer = judge(FORWARD, operator=PRODUCT, kernels=KERNEL, libraries="own")
    assert (answer.report.status, answer.code) == ("policy", 1), answer.report
    assert "sgemm_" in answer.report.reason
    assert answer.report.checked_calls == 0


@pytest.mark.parametrize(("libraries", "status"), [("vendor", "correct"), ("own", "policy")])
def test_a_module_that_a_submission_builds_itself_is_looked_at_too(judge: Judge, libraries: str, status: str) -> None:
    answer = judge(BUILT_HERE, operator=PRODUCT, libraries=libraries)
    assert answer.report.status == status, answer.report
    assert status == "correct" or "sgemm_" in answer.report.reason


def library_calling(folder: Path, names: list[str]) -> Path:
    """A library with these names undefined, as nvcc's or g++'s objects leave them."""
    source = "".join(f"void {name}(void);\n" for name in names)
    (folder / "calls.c").write_text(f"{source}void run(void) {{ {' '.join(f'{name}();' for name in names)} }}\n")
    path = folder / "calls.so"
    subprocess.run(["gcc", "-w", "-fno-builtin", "-shared", "-fPIC", "calls.c", "-o", path], cwd=folder, check=True)
    return path


def test_calls_of_vendors_libraries_are_told_from_a_library_s_file(tmp_path: Path) -> None:
    library = library_calling(tmp_path, CALLS + OWN)
    assert set(CALLS + OWN) <= set(undefined_symbols(library))
    assert vendor_calls([library]) == sorted(CALLS)


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + b"\xff" * 58, b"int x;"])
def test_a_file_that_is_no_library_calls_nothing(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.so").write_bytes(content)
    assert vendor_calls([tmp_path / "x.so"]) == []


def test_vendor_libraries_and_headers_that_pip_installed_are_found_beside_torch(tmp_path: Path) -> None:
    site, toolkit = tmp_path / "site-packages", tmp_path / "toolkit"
    for name in (
        "nvidia/cu13/lib/libcublasLt.so.13",
        "nvidia/cu13/include/cublasLt.h",
        "nvidia/cudnn/lib/libcudnn.so.9",
    ):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).touch()
    chain = Toolchain("g++", site / "torch", Cuda("nvcc", toolkit, "90a"))
    link = chain.link_command([], Path("x.so"), "stable")
    assert {str(site / "nvidia/cu13/lib/libcublasLt.so.13"), str(site / "nvidia/cudnn/lib/libcudnn.so.9")} < set(link)
    included = str(site / "nvidia/cu13/include")
    assert included in chain.compile_command("kernels/x.cu", Path("x.o"), Path("x.d"), "stable")
    (toolkit / "include").mkdir(parents=True)
    (toolkit / "include/cublasLt.h").touch()
    assert included not in chain.compile_command("kernels/x.cu", Path("x.o"), Path("x.d"), "stable")
