"""A kernel of rows for cuda: its walks, brought into one launch or one each, and the launcher.

A row belongs to a warp, a block, or a team of blocks that hold it in shared memory between its walks. Long rows that
are not held are cut into parts: each walk is a launch of its own, the states of parts lie in a workspace in between,
and the later walks go backwards, to begin with what is still in the L2 cache.
"""

from collections.abc import Sequence

from cuda_agent.llm.builtin.cuda_options import CudaOptions
from cuda_agent.llm.builtin.row_across import across_body
from cuda_agent.llm.builtin.row_along import along_body, held_bytes, pieces_of
from cuda_agent.llm.builtin.row_layout import MAX_BLOCKS
from cuda_agent.llm.builtin.row_plan import RowPlan, plan_of
from cuda_agent.llm.builtin.row_steps import Steps
from cuda_agent.llm.builtin.row_text import arguments, parameters
from cuda_agent.llm.builtin.rows import Rows


class RowKernels:
    """Writes the kernels and the launcher."""

    def __init__(self, name: str, rows: Rows, options: CudaOptions, functions: set[str], processors: int) -> None:
        self.name = name
        self.rows = rows
        self.functions = functions
        self.params = ", ".join(parameters(rows))
        self.arguments = ", ".join(arguments(rows))
        self.options = options
        self.processors = processors

    def text(self) -> str:
        """Return the kernels and the launcher."""
        if self.rows.total == 0:
            return f'extern "C" void {self.name}({self.params}, cudaStream_t) {{}}\n'
        plan = plan_of(self.rows, self.options, self.processors)
        for steps in plan.steps:
            self.functions |= steps.functions()
        groups: list[Sequence[Steps]] = [[steps] for steps in plan.steps] if plan.layout.parts > 1 else [plan.steps]
        lines = [line for k, group in enumerate(groups) for line in self._kernel(plan, k, group)]
        lines += [f'extern "C" void {self.name}({self.params}, cudaStream_t stream) {{']
        lines += [f"  {line}" for line in self._launches(plan, groups)]
        return "\n".join([*lines, "}", ""])

    def _kernel(self, plan: RowPlan, number: int, group: Sequence[Steps]) -> list[str]:
        across, size, blocks = plan.layout.across, plan.layout.size, plan.layout.blocks
        bounds = f"{size}, {blocks}" if blocks > 1 else str(size)
        body = across_body(plan, group, self.functions) if across else along_body(plan, group, self.functions)
        return [
            *(["template <int V>"] if across else []),
            f"__global__ void __launch_bounds__({bounds}) {self.name}_kernel{number}({self.params}) {{",
            *(line if line.startswith("#") else f"  {line}" for line in body),
            "}",
            "",
        ]

    def _launches(self, plan: RowPlan, groups: Sequence[Sequence[Steps]]) -> list[str]:
        layout, kernel = plan.layout, f"{self.name}_kernel0"
        if layout.team > 0:
            shared = sum(held_bytes(plan))
            rest = f"{layout.size}, {shared}"
            if layout.team == 1:
                self.functions.add("launch_held")
                return [f"launch_held<{kernel}>({self.rows.count}, {rest}, stream, {self.arguments});"]
            self.functions.add("launch_teams")
            teams = f"{layout.team}, {MAX_BLOCKS // layout.team}"
            given = f"{self.rows.count}, {teams}, {rest}, {plan.meetings}, stream, {self.arguments}"
            return [f"launch_teams<{kernel}>({given});"]
        if layout.across:
            return self._across_launches(plan, groups)
        blocks = [-(-self.rows.count // layout.threads[1]) * pieces_of(plan, group) for group in groups]
        return [self._launch(plan, f"{self.name}_kernel{k}", count) for k, count in enumerate(blocks)]

    def _across_launches(self, plan: RowPlan, groups: Sequence[Sequence[Steps]]) -> list[str]:
        width = min((plan.width(steps) for steps in plan.steps if steps.packs()), default=1)

        def launches(width: int) -> list[str]:
            tiles = -(-self.rows.run // (plan.layout.threads[0] * width))
            rows = self.rows.count // self.rows.run * tiles
            counts = [rows * pieces_of(plan, group) for group in groups]
            return [self._launch(plan, f"{self.name}_kernel{k}<{width}>", count) for k, count in enumerate(counts)]

        if width == 1:
            return launches(1)
        self.functions.add("aligned")
        buffers = dict.fromkeys(name for steps in plan.steps for name in steps.pack_buffers())
        checks = " && ".join(f"aligned<{width}>({name})" for name in buffers)
        wide, single = launches(width), launches(1)
        return [f"if ({checks}) {{", *(f"  {x}" for x in wide), "} else {", *(f"  {x}" for x in single), "}"]

    def _launch(self, plan: RowPlan, kernel: str, blocks: int) -> str:
        x, y = plan.layout.threads
        return f"{kernel}<<<{blocks}, dim3({x}, {y}), 0, stream>>>({self.arguments});"
