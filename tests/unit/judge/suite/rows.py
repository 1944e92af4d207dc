"""The whole suite."""

from suite import clocks, devices, forms, honest, kernels, remembering, tampering
from suite.row import Row, Target

CHEATS: tuple[Row, ...] = (
    *remembering.ROWS,
    *forms.ROWS,
    *clocks.ROWS,
    *tampering.ROWS,
    *devices.ROWS,
    *kernels.CHEATS,
)
HONEST: tuple[Row, ...] = (*honest.ROWS, *kernels.HONEST)


def of(target: Target, rows: tuple[Row, ...]) -> list[Row]:
    """Those of a target."""
    return [row for row in rows if target in row.targets]
