"""The binding: checks the tensors, then calls the launchers in order."""

from collections.abc import Sequence

from cuda_agent.llm.builtin.blocked import AnyKernel
from cuda_agent.llm.builtin.dtypes import HALVES, STORED
from cuda_agent.llm.builtin.stage import Buffer, Product

SCALAR_TYPES = {
    "bool": "Bool",
    "uint8": "Byte",
    "int8": "Char",
    "int16": "Short",
    "int32": "Int",
    "int64": "Long",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "float32": "Float",
    "float64": "Double",
}


def kernel_buffers(kernels: Sequence[AnyKernel]) -> tuple[list[Buffer], list[Buffer]]:
    """Return what the kernels read and do not write, and what they write, each once."""
    written = {b.name: b for kernel in kernels for b in kernel.outputs}
    read = {b.name: b for kernel in kernels for b in kernel.reads if b.name not in written}
    return list(read.values()), list(written.values())


def binding_source(name: str, kernels: Sequence[AnyKernel], target: str) -> str:
    """Return the file kernels/NAME_binding.cpp."""
    read, written = kernel_buffers(kernels)
    schema = [f"Tensor {b.name}" for b in read]
    schema += [f"Tensor(w{k}!) {b.name}" for k, b in enumerate(written)]
    params = ", ".join(f"const Tensor& {b.name}" for b in [*read, *written])
    return "\n".join(
        [
            f"// Checks the tensors of {name} and runs its kernels.",
            '#include "../binding_registry.h"',
            "",
            *_declarations(name, kernels, target),
            "",
            "using Sizes = std::vector<int64_t>;",
            "",
            "static void expect(const Tensor& tensor, const char* name, ScalarType type, const Sizes& sizes,",
            "                   const Sizes& strides) {",
            '  CHECK(tensor.scalar_type() == type, name, ": another dtype was expected");',
            "  const int64_t rank = static_cast<int64_t>(sizes.size());",
            '  CHECK(tensor.dim() == rank, name, ": another number of dimensions was expected");',
            "  for (size_t k = 0; k < sizes.size(); ++k) {",
            '    CHECK(tensor.size(k) == sizes[k], name, ": another shape was expected");',
            "    const bool counts = sizes[k] != 1 && tensor.numel() != 0;",
            '    CHECK(!counts || tensor.stride(k) == strides[k], name, ": other strides were expected");',
            "  }",
            "}",
            "",
            f"void {name}({params}) {{",
            *(_expect(b) for b in [*read, *written]),
            *(
                line
                for k, kernel in enumerate(kernels)
                for line in _call(f"{name}_{k}", kernel, target, (written or read)[0])
            ),
            "}",
            f'REGISTER_KERNEL({name}, "({", ".join(schema)}) -> ()");',
            "",
        ]
    )


def _expect(buffer: Buffer) -> str:
    spec = buffer.spec
    sizes = ", ".join(str(n) for n in spec.shape)
    strides = ", ".join(str(n) for n in spec.strides)
    kind = SCALAR_TYPES[spec.dtype]
    return f'  expect({buffer.name}, "{buffer.name}", ScalarType::{kind}, {{{sizes}}}, {{{strides}}});'


def _memory_type(dtype: str) -> str:
    return "void" if dtype in HALVES else STORED[dtype]


def _declarations(name: str, kernels: Sequence[AnyKernel], target: str) -> list[str]:
    lines = []
    for k, kernel in enumerate(kernels):
        read, written = kernel.reads, kernel.outputs
        params = [f"const {_memory_type(b.spec.dtype)}*" for b in read]
        params += [f"{_memory_type(b.spec.dtype)}*" for b in written]
        if target == "cuda":
            params.append("cudaStream_t")
        result = "const char*" if target == "cuda" and isinstance(kernel, Product) else "void"
        lines.append(f'extern "C" {result} {name}_{k}({", ".join(params)});')
    return lines


def _call(function: str, kernel: AnyKernel, target: str, device: Buffer) -> list[str]:
    if kernel.total == 0:
        return []
    read, written = kernel.reads, kernel.outputs
    args = [f"in<{_memory_type(b.spec.dtype)}>({b.name})" for b in read]
    args += [f"out<{_memory_type(b.spec.dtype)}>({b.name})" for b in written]
    if target != "cuda":
        return [f"  {function}({', '.join(args)});"]
    args.append(f"current_stream({device.name})")
    if isinstance(kernel, Product):
        return [f"  if (const char* fault = {function}({', '.join(args)})) CHECK(false, fault);"]
    return [f"  {function}({', '.join(args)});", f'  check_launch("{function}");']
