"""Which stages become one kernel, in which order."""

from cuda_agent.llm.builtin.expr import Load, depth_first
from cuda_agent.llm.builtin.graph import numel
from cuda_agent.llm.builtin.nest import Nest, plan_nest
from cuda_agent.llm.builtin.rows import Group, Rows, plan_rows, reduce_pass, stage_exprs
from cuda_agent.llm.builtin.stage import Buffer, Plan, Reduce, Stage

Kernel = Nest | Rows


def plan_kernels(plan: Plan) -> tuple[Kernel, ...]:
    """Put the stages that an output needs into kernels, in an order in which they can run."""
    stages = needed(plan)
    buffers = dict(plan.inputs)
    for stage in stages:
        buffers |= {one.name: one for one in written_by(stage)}
    units: list[Group | Stage] = []
    homes: dict[str, int] = {}
    exported: set[str] = set()
    for stage in stages:
        place = join(stage, units, homes)
        for source in sources_of(stage):
            if homes.get(source, place) != place:
                exported.add(source)
        for buffer in written_by(stage):
            homes[buffer.name] = place
    return tuple(
        plan_rows(unit, buffers, exported) if isinstance(unit, Group) else plan_nest(unit, buffers) for unit in units
    )


def join(stage: Stage | Reduce, units: list[Group | Stage], homes: dict[str, int]) -> int:
    """Add a stage to the last kernel that it may join, else to a new one; returns its place."""
    earliest = max((homes.get(source, -1) for source in sources_of(stage)), default=-1)
    for place in range(len(units) - 1, max(earliest, 0) - 1, -1):
        unit = units[place]
        taken = unit.takes(stage) if isinstance(unit, Group) else None
        if taken is None or not isinstance(unit, Group):
            continue
        unit.passes.append(taken)
        if isinstance(stage, Reduce):
            unit.numbers[stage.buffer.name] = stage
        else:
            unit.written.update(store.buffer.name for store in stage.stores)
        return place
    if isinstance(stage, Reduce):
        name = stage.buffer.name
        units.append(Group(numel(stage.outer), [reduce_pass(stage)], {name: stage}, set()))
    else:
        units.append(stage)
    return len(units) - 1


def needed(plan: Plan) -> list[Stage | Reduce]:
    """Return the stages that a result depends on, in order."""
    wanted = set(plan.results.values())
    kept: list[Stage | Reduce] = []
    for stage in reversed(plan.stages):
        if wanted & {buffer.name for buffer in written_by(stage)}:
            kept.append(stage)
            wanted |= sources_of(stage)
    return kept[::-1]


def written_by(stage: Stage | Reduce) -> list[Buffer]:
    """Return the buffers that a stage fills."""
    return [stage.buffer] if isinstance(stage, Reduce) else [store.buffer for store in stage.stores]


def sources_of(stage: Stage | Reduce) -> set[str]:
    """Return the names of what a stage reads."""
    return {node.source for node in depth_first(stage_exprs(stage)) if isinstance(node, Load)}
