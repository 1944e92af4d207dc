"""What a row of the suite has to show, said once for both targets."""

from suite.row import ACCEPTED, Row, Target, nearly
from suite.rows import CHEATS, of
from suite.warm import Judged, Warm


def switched(target: Target) -> list[tuple[Row, str]]:
    """Rows with what has to be off for them to be accepted."""
    return [(row, off) for row in of(target, CHEATS) for off in row.off]


def doubly_held(target: Target) -> list[tuple[Row, str]]:
    """Rows that more than one defence finds, with all that leaves one of these on."""
    return [(row, less) for row, off in switched(target) if "+" in off for less in nearly(off)]


def fooling(target: Target) -> list[Row]:
    """Rows that stand against a plain checker."""
    return [row for row in of(target, CHEATS) if target in row.plain]


def named(pair: tuple[Row, str]) -> str:
    """The name of a test."""
    row, off = pair
    return f"{row.name}-without {off}"


def says_what_finds_it(row: Row, target: Target) -> bool:
    """Whether a cheat names a switch, or else what of the judge's structure and how or why not that is shown."""
    if row.off:
        return not row.by
    return bool(row.by) and (target in row.plain or bool(row.unshown))


def is_as_expected(warm: Warm, row: Row) -> None:
    """Judge it with all defences."""
    judged = _tried(warm, row, "", row.statuses, again=row.needs_timing and "slower" in row.statuses)
    assert judged.report.status in row.statuses, judged.report
    assert row.said in judged.report.reason
    assert ("[PASS]" if judged.report.passed else "[FAIL]") in judged.stdout
    assert judged.code == (0 if judged.report.passed else 1)


def is_accepted(warm: Warm, row: Row, off: str) -> None:
    """Judge it without these defences."""
    judged = _tried(warm, row, off, ACCEPTED, again=True)
    assert judged.report.status in ACCEPTED, judged.report


def is_still_found(warm: Warm, row: Row, off: str) -> None:
    """Judge it without these defences, and see that what is left is enough."""
    judged = warm.judge(row, off)
    assert judged.report.status not in ACCEPTED, judged.report


def _tried(warm: Warm, row: Row, off: str, wanted: tuple[str, ...], *, again: bool) -> Judged:
    """Judge it; with `again` up to three times, since on a machine with other load noise can decide once.

    That is so where the time counts, and for a cheat that has to win a race of sleeps to be accepted.
    """
    judged = warm.judge(row, off)
    for _ in range(2):
        if not again or judged.report.status in wanted:
            break
        judged = warm.judge(row, off)
    return judged


def is_fooled(warm: Warm, row: Row) -> None:
    """Have the plain checker look at it."""
    looked = warm.look(row)
    assert looked.ok, looked.output
    if row.needs_timing:
        assert looked.speedup > 1, looked.output
