"""Which stages become one kernel, in which order."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cuda_agent.llm.builtin.graph import numel
from cuda_agent.llm.builtin.in_place import Unit, settled, sources, written
from cuda_agent.llm.builtin.nest import Nest, plan_nest
from cuda_agent.llm.builtin.rows import Group, Rows, plan_rows, reduce_pass
from cuda_agent.llm.builtin.stage import Buffer, Plan, Product, Reduce, Step

Kernel = Nest | Rows | Product


@dataclass(frozen=True)
class Placed:
    """Stages put into kernels."""

    units: list[Unit]
    homes: dict[str, int]
    """By buffer the place of the kernel that writes it."""
    exported: set[str]
    """The numbers of a row kernel that another kernel reads."""


def plan_kernels(plan: Plan) -> tuple[Kernel, ...]:
    """Put the stages that an output needs into kernels, in an order in which they can run."""
    stages = needed(plan)
    placed = place(stages)
    if any(isinstance(stage, Product) for stage in stages):
        stages = settled(stages, placed.units, placed.homes, frozenset(plan.results.values()))
        placed = place(stages)
    buffers = dict(plan.inputs)
    for stage in stages:
        buffers |= {one.name: one for one in written(stage)}
    return tuple(plan_unit(unit, buffers, placed.exported) for unit in placed.units)


def place(stages: Sequence[Step]) -> Placed:
    """Put each stage into the last kernel that it may join, else into a new one."""
    placed = Placed([], {}, set())
    for stage in stages:
        home = join(stage, placed.units, placed.homes)
        for source in sources(stage):
            if placed.homes.get(source, home) != home:
                placed.exported.add(source)
        for buffer in written(stage):
            placed.homes[buffer.name] = home
    return placed


def plan_unit(unit: Unit, buffers: dict[str, Buffer], exported: set[str]) -> Kernel:
    """Finish a kernel."""
    if isinstance(unit, Group):
        return plan_rows(unit, buffers, exported)
    if isinstance(unit, Product):
        left, right = (replace(one, buffer=buffers[one.buffer.name]) for one in (unit.left, unit.right))
        bias = unit.bias and replace(unit.bias, buffer=buffers[unit.bias.buffer.name])
        return replace(unit, left=left, right=right, bias=bias)
    return plan_nest(unit, buffers)


def join(stage: Step, units: list[Unit], homes: dict[str, int]) -> int:
    """Add a stage to the last kernel that it may join, else to a new one; returns its place."""
    earliest = max((homes.get(source, -1) for source in sources(stage)), default=-1)
    for place in range(len(units) - 1, max(earliest, 0) - 1, -1):
        unit = units[place]
        taken = unit.takes(stage) if isinstance(unit, Group) else None
        if taken is None or not isinstance(unit, Group):
            continue
        unit.passes.append(taken)
        if isinstance(stage, Reduce):
            unit.numbers[stage.buffer.name] = stage
        else:
            unit.written.update(one.name for one in written(stage))
        return place
    if isinstance(stage, Reduce):
        name = stage.buffer.name
        units.append(Group(numel(stage.outer), [reduce_pass(stage)], {name: stage}, set()))
    else:
        units.append(stage)
    return len(units) - 1


def needed(plan: Plan) -> list[Step]:
    """Return the stages that a result depends on, in order."""
    wanted = set(plan.results.values())
    kept: list[Step] = []
    for stage in reversed(plan.stages):
        if wanted & {buffer.name for buffer in written(stage)}:
            kept.append(stage)
            wanted |= sources(stage)
    return kept[::-1]
