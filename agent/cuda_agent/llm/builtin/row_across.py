"""Row kernels for cuda whose lanes are neighbouring rows, and whose lines share the columns."""

from collections.abc import Sequence

from cuda_agent.llm.builtin.row_along import pieces_of
from cuda_agent.llm.builtin.row_plan import SPACE, RowPlan, numbers_text
from cuda_agent.llm.builtin.row_steps import Steps
from cuda_agent.llm.builtin.row_text import share_of


def across_body(plan: RowPlan, group: Sequence[Steps], functions: set[str]) -> list[str]:
    """Write the body of the kernel that does some of the walks, for vectors of V rows."""
    functions |= {"walk_down", "across_fold"}
    lanes, lines = plan.layout.threads
    run, pieces = plan.rows.run, pieces_of(plan, group)
    backwards = plan.layout.parts > 1 and group[0] is not plan.steps[0]
    block = "static_cast<int64_t>(gridDim.x - 1 - blockIdx.x)" if backwards else "static_cast<int64_t>(blockIdx.x)"
    body = [
        f"constexpr int kLanes = {lanes}, kLines = {lines};",
        f"[[maybe_unused]] constexpr int kUnroll = V > 1 ? {max(1, plan.layout.unroll // 2)} : {plan.layout.unroll};",
        f"constexpr int64_t kTiles = ({run} + kLanes * V - 1) / (kLanes * V);",
        f"const int64_t block = {block} / {pieces};",
        f"[[maybe_unused]] const int rank = static_cast<int>({block} % {pieces});",
        "[[maybe_unused]] const int64_t row = block / kTiles;",
        "const int64_t begin = block % kTiles * (kLanes * V) + threadIdx.x * V;",
        f"const bool active = begin < {run};",
        *_earlier(plan, group, functions),
    ]
    for steps in group:
        body += _walk(plan, steps, functions)
    return body


def _slot(plan: RowPlan, part: str) -> str:
    return f"(row * {plan.layout.parts} + {part}) * {plan.rows.run} + begin + v"


def _earlier(plan: RowPlan, group: Sequence[Steps], functions: set[str]) -> list[str]:
    """Put together what earlier launches left of the numbers that this one uses."""
    if plan.layout.parts == 1:
        return []
    functions |= {"slots"}
    own = [fold for steps in group for fold in steps.walk.folds]
    lines: list[str] = []
    for fold in plan.used(group[0].walk):
        if fold in own:
            continue
        name = f"state_{fold.name}"
        lines += [
            f"{fold.state} {name}[V];",
            f"for (int k = threadIdx.y; active && k < {plan.layout.parts}; k += kLines)",
            "#pragma unroll",
            "  for (int v = 0; v < V; ++v)",
            f"    {name}[v].merge(get<{fold.state}>({SPACE}{fold.name}, {_slot(plan, 'k')}));",
            f"across_fold<kLanes, kLines>({name});",
            *numbers_text(fold, lanes=True),
        ]
    return lines


def _walk(plan: RowPlan, steps: Steps, functions: set[str]) -> list[str]:
    folds = steps.walk.folds
    inner = [
        f"using I = {steps.kind};",
        *steps.pointers(),
        *_part(plan, steps),
        *steps.hoisted(),
        *steps.text(),
        f"walk_down<{'kUnroll' if steps.walk.width > 1 else '1'}, I>"
        "(part_first, part_last, static_cast<I>(threadIdx.y), kLines, step);",
    ]
    lines = [f"{fold.state} state_{fold.name}[V];" for fold in folds]
    lines += ["if (active) {", *(f"  {line}" for line in inner), "}"]
    lines += [f"across_fold<kLanes, kLines>(state_{fold.name});" for fold in folds]
    if plan.layout.parts == 1:
        return [*lines, *(line for fold in folds for line in numbers_text(fold, lanes=True))]
    functions |= {"slots"}
    puts = [f"put({SPACE}{fold.name}, {_slot(plan, 'rank')}, state_{fold.name}[v]);" for fold in folds]
    if puts:
        lines += [
            "if (active && threadIdx.y == 0) {",
            "#pragma unroll",
            "  for (int v = 0; v < V; ++v) {",
            *(f"    {line}" for line in puts),
            "  }",
            "}",
        ]
    return lines


def _part(plan: RowPlan, steps: Steps) -> list[str]:
    width, chunk = steps.walk.width, plan.layout.chunk
    if plan.layout.parts == 1:
        return [f"constexpr I part_first = 0, part_last = {width};"]
    return share_of(width, chunk)
