"""A kernel of rows for cuda as it is planned: its walks, their steps, the layout, and the memory that states need."""

from dataclasses import dataclass, replace

from cuda_agent.llm.builtin.cuda_options import CudaOptions
from cuda_agent.llm.builtin.dtypes import COMPUTED
from cuda_agent.llm.builtin.folds import Fold, Walk, walks_of
from cuda_agent.llm.builtin.graph import TensorSpec
from cuda_agent.llm.builtin.row_layout import MAX_BLOCKS, Layout, layout_of
from cuda_agent.llm.builtin.row_steps import Steps
from cuda_agent.llm.builtin.rows import Rows
from cuda_agent.llm.builtin.stage import Buffer

SPACE = "space_"


@dataclass(frozen=True)
class RowPlan:
    """Everything that is decided before a kernel is written."""

    rows: Rows
    layout: Layout
    steps: tuple[Steps, ...]
    vectors: bool
    """Whether elements may be read in vectors at all."""

    @property
    def folds(self) -> list[Fold]:
        """Everything that is gathered."""
        return [fold for steps in self.steps for fold in steps.walk.folds]

    @property
    def meetings(self) -> str:
        """The buffer in which the blocks of a team count who has come."""
        return f"{SPACE}meetings_{self.folds[0].name}"

    def width(self, steps: Steps) -> int:
        """Elements of a vector in one walk."""
        return min(steps.width(), self.layout.vector) if self.vectors else 1

    def used(self, walk: Walk) -> list[Fold]:
        """Return the folds of earlier walks whose numbers a walk uses."""
        names = {node.source for node in walk.loads()}
        return [fold for fold in self.folds if names & {number.name for number in fold.numbers}]


def plan_of(rows: Rows, options: CudaOptions, processors: int) -> RowPlan:
    """Plan a kernel."""
    walks = walks_of(rows)
    layout = layout_of(rows, walks, options, processors)
    return RowPlan(rows, layout, tuple(Steps(k, walk, rows, layout) for k, walk in enumerate(walks)), options.vector)


def spaced(rows: Rows, options: CudaOptions, processors: int) -> Rows:
    """Return the kernel with the buffers that its states lie in between launches or between blocks."""
    if rows.total == 0:
        return rows
    plan = plan_of(rows, options, processors)
    team, parts = plan.layout.team, plan.layout.parts
    sizes: dict[str, int] = {}
    if team > 1:
        sizes = {f"{SPACE}{fold.name}": 2 * MAX_BLOCKS * fold.words for fold in plan.folds}
        sizes[plan.meetings] = MAX_BLOCKS // team * 16
    elif parts > 1:
        sizes = {f"{SPACE}{fold.name}": rows.count * parts * fold.words for fold in plan.folds}
    spaces = tuple(Buffer(name, TensorSpec(name, (size,), (1,), "int64")) for name, size in sizes.items())
    return replace(rows, outputs=rows.outputs + spaces)


def numbers_text(fold: Fold, lanes: bool) -> list[str]:
    """Read a fold's numbers off its state: one each, or one a lane."""
    lines = []
    for number in fold.numbers:
        kind = COMPUTED[number.dtype]
        if not lanes:
            lines.append(f"[[maybe_unused]] const {kind} number_{number.name} = state_{fold.name}.{number.text};")
            continue
        lines += [
            f"[[maybe_unused]] {kind} number_{number.name}[V];",
            "#pragma unroll",
            f"for (int v = 0; v < V; ++v) number_{number.name}[v] = state_{fold.name}[v].{number.text};",
        ]
    return lines
