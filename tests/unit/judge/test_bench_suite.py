"""bench.suite with several judgements under way at once: each row is judged as often as asked for, until time is up."""

import math
from pathlib import Path

from bench.suite import Work, read
from suite.rows import CHEATS, of


def test_rows_are_judged_by_several_at_once_and_earlier_judgements_count(tmp_path: Path) -> None:
    names = ("memo by shape", "one value for all")
    tasks = [(row, "") for row in of("cpu", CHEATS) if row.name in names]
    file = tmp_path / "lines"
    late = Work(file, "cpu", 1, -math.inf)
    late.carry_out(tasks, tmp_path / "late", 2)
    assert late.is_late
    assert read(file) == []

    work = Work(file, "cpu", 1, math.inf)
    work.carry_out(tasks, tmp_path / "first", 2)
    assert sorted((line["row"], line["status"]) for line in read(file)) == [(name, "incorrect") for name in names]
    assert (work.wrong, work.is_late) == (0, False)

    Work(file, "cpu", 1, math.inf).carry_out(tasks, tmp_path / "second", 2)
    assert len(read(file)) == 2
    assert not (tmp_path / "second").exists()


def test_only_what_takes_the_whole_device_is_judged_alone() -> None:
    assert [row.name for row in of("cuda", CHEATS) if row.alone] == [
        "all memory of the device, so that no reference can run"
    ]
