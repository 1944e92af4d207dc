"""A design: the kernels of one operator, their variants in the order of their promise, and their files."""

from collections.abc import Mapping
from dataclasses import dataclass

from cuda_agent.llm.builtin.absorb import with_scales
from cuda_agent.llm.builtin.binding_source import binding_source
from cuda_agent.llm.builtin.blocked import AnyKernel
from cuda_agent.llm.builtin.cpu_source import cpu_source
from cuda_agent.llm.builtin.cuda_options import CudaOptions
from cuda_agent.llm.builtin.cuda_source import cuda_source
from cuda_agent.llm.builtin.graph import Graph
from cuda_agent.llm.builtin.kernels import Kernel
from cuda_agent.llm.builtin.module_source import module_source
from cuda_agent.llm.builtin.stage import Plan, Product
from cuda_agent.llm.builtin.variants import Variant, cpu_variants, cuda_variants, target_kernels


@dataclass(frozen=True)
class Design:
    """Everything that is decided before a file is written."""

    name: str
    summary: str
    """What the kernels do, in a sentence."""
    graph: Graph
    plan: Plan
    kernels: tuple[Kernel, ...]

    @property
    def target(self) -> str:
        """What the kernels are written for: "cpu" or "cuda"."""
        return self.graph.target

    @property
    def kernel_path(self) -> str:
        """The file that variants differ in."""
        return f"kernels/{self.name}.{'cu' if self.target == 'cuda' else 'cpp'}"

    @property
    def kernel_bytes(self) -> int:
        """What the kernels must read and write."""
        return sum(_kernel_bytes(kernel) for kernel in self.kernels)

    @property
    def flops(self) -> int:
        """What the products of matrices compute."""
        return sum(kernel.flops for kernel in self.kernels if isinstance(kernel, Product))

    def kernels_of(self, variant: Variant) -> tuple[AnyKernel, ...]:
        """Return the kernels of a variant, in the order in which they run."""
        return self.kernels if variant.kernels is None else variant.kernels

    def kernel(self, variant: Variant) -> str:
        """Return the text of the kernel file."""
        title = f"// {self.summary}\n// variant: {variant.name}"
        kernels = self.kernels_of(variant)
        if isinstance(variant.options, CudaOptions):
            return cuda_source(self.name, kernels, variant.options, title)
        return cpu_source(self.name, kernels, variant.options, title)

    def files(self, variant: Variant) -> dict[str, str]:
        """Every file of the submission, by its path."""
        kernels = self.kernels_of(variant)
        return {
            self.kernel_path: self.kernel(variant),
            f"kernels/{self.name}_binding.cpp": binding_source(self.name, kernels, self.target),
            "model_new.py": module_source(self.name, self.graph, self.plan, kernels),
        }

    def variants(self) -> Mapping[str, Variant]:
        """By name, the best expected first, the conservative one last."""
        cores = int(self.graph.device.get("cores") or 2)
        found = (
            cuda_variants(self.plan, self.kernels)
            if self.target == "cuda"
            else cpu_variants(self.plan, self.kernels, cores)
        )
        return {variant.name: variant for variant in found}


def make_design(name: str, summary: str, graph: Graph, plan: Plan) -> Design:
    """Plan the kernels."""
    plan = with_scales(plan)
    return Design(name, summary, graph, plan, target_kernels(plan, graph.target))


def _kernel_bytes(kernel: AnyKernel) -> int:
    return sum(buffer.spec.bytes for buffer in (*kernel.reads, *kernel.outputs))
