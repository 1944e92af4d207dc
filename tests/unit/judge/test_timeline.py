"""What ran in a call and when, from a profiler's events."""

from typing import Any

import pytest

from cuda_agent_judge.timeline import CALL, MAX_ROWS, Timeline, device_timeline, host_timeline

RANGE = {"ph": "X", "cat": "user_annotation", "name": CALL, "ts": 100.0, "dur": 50.0, "tid": 1}


def launch(ts: float, correlation: int, tid: int = 1) -> dict[str, Any]:
    name = "cudaLaunchKernel"
    args = {"correlation": correlation}
    return {"ph": "X", "cat": "cuda_runtime", "name": name, "ts": ts, "dur": 2.0, "tid": tid, "args": args}


def kernel(ts: float, dur: float, correlation: int, name: str = "void f<2>(float*)", **args: Any) -> dict[str, Any]:
    given = {"correlation": correlation, "grid": [8, 1, 1], "block": [256, 1, 1], "registers per thread": 32} | args
    return {"ph": "X", "cat": "kernel", "name": name, "ts": ts, "dur": dur, "tid": 7, "args": given}


def operation(name: str, ts: float, dur: float, tid: int = 1) -> dict[str, Any]:
    return {"ph": "X", "cat": "cpu_op", "name": name, "ts": ts, "dur": dur, "tid": tid, "args": {}}


def test_gaps_are_what_is_left_of_the_span() -> None:
    events = [RANGE, launch(110, 1), launch(115, 2), kernel(1000, 10, 1), kernel(1040, 20, 2, "g()")]
    found = device_timeline(events)
    assert (found.span_us, found.busy_us, found.launches) == (60, 30, 2)
    assert [(row.name, row.us) for row in found.rows] == [("g()", 20), ("void f<2>(float*)", 10)]


def test_what_runs_at_once_is_counted_once() -> None:
    events = [RANGE, launch(110, 1), launch(115, 2), kernel(1000, 30, 1), kernel(1010, 30, 2)]
    found = device_timeline(events)
    assert (found.span_us, found.busy_us) == (40, 40)


def test_only_what_the_call_started_counts() -> None:
    events = [
        RANGE,
        launch(50, 1),  # what holds the device up and writes the inputs
        launch(120, 2),
        launch(160, 3),
        kernel(900, 500, 1, "spin()"),
        kernel(1400, 10, 2),
        kernel(1500, 10, 3, "later()"),
    ]
    assert [row.name for row in device_timeline(events).rows] == ["void f<2>(float*)"]


def test_launches_of_other_threads_and_several_of_one_launch_count() -> None:
    events = [RANGE, launch(110, 1, tid=2), kernel(1000, 10, 1), kernel(1010, 10, 1)]
    found = device_timeline(events)
    assert (found.rows[0].calls, found.rows[0].us, found.launches) == (2, 20, 2)


def test_the_same_kernel_in_another_shape_is_a_row_of_its_own() -> None:
    events = [RANGE, launch(110, 1), launch(111, 2), kernel(1000, 10, 1), kernel(1010, 10, 2, grid=[9, 2, 1])]
    assert {row.grid for row in device_timeline(events).rows} == {(8, 1, 1), (9, 2, 1)}


def test_copies_and_fills_are_told_apart() -> None:
    copy = {**kernel(1000, 4, 1, "Memcpy DtoD"), "cat": "gpu_memcpy"}
    fill = {**kernel(1010, 2, 2, "Memset"), "cat": "gpu_memset"}
    events = [RANGE, launch(110, 1), launch(111, 2), copy, fill]
    assert [row.kind for row in device_timeline(events).rows] == ["copy", "fill"]


def test_on_the_host_the_submissions_own_operations_count() -> None:
    events = [RANGE, operation("aten::empty", 101, 2), operation("own::go", 105, 30), operation("own::go", 140, 5)]
    found = host_timeline(events, "own")
    assert (found.span_us, found.busy_us, found.launches) == (50, 35, 2)
    assert [(row.name, row.kind, row.calls) for row in found.rows] == [("go", "operation", 2)]


def test_without_a_call_there_is_nothing() -> None:
    assert device_timeline([kernel(1, 2, 3)]) == Timeline((), 0.0, 0.0, 0)
    assert host_timeline([operation("own::go", 1, 2)], "own") == Timeline((), 0.0, 0.0, 0)


def test_a_timeline_survives_the_wire_and_says_what_it_leaves_out() -> None:
    events = [RANGE]
    for number in range(MAX_ROWS + 3):
        events += [launch(101 + number, number), kernel(1000 + 10 * number, 5, number, f"k{number}()")]
    sent = device_timeline(events).to_json()
    read = Timeline.from_json(sent)
    assert (len(read.rows), read.left_out, read.launches) == (MAX_ROWS, 3, MAX_ROWS + 3)
    assert read.to_json() == sent


ROW = {"name": "f", "kind": "kernel", "calls": 1, "us": 2.0, "grid": [1], "block": [32], "registers": 8}
SOUND = {"rows": [{**ROW, "shared_bytes": 0}], "span_us": 1.0, "busy_us": 1.0, "launches": 1, "left_out": 0}


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {**SOUND, "rows": 3},
        {**SOUND, "rows": [7]},
        {**SOUND, "rows": [ROW]},
        {**SOUND, "rows": [{**ROW, "shared_bytes": "many"}]},
        {**SOUND, "rows": [{**ROW, "shared_bytes": 0, "kind": "win"}]},
        {**SOUND, "rows": [{**ROW, "shared_bytes": 0, "name": ["f"]}]},
        {**SOUND, "rows": [{**ROW, "shared_bytes": 0, "grid": ["x"]}]},
        {**SOUND, "span_us": -1},
        {**SOUND, "span_us": float("nan")},
        {**SOUND, "busy_us": float("inf")},
        {**SOUND, "launches": True},
        {**SOUND, "left_out": None},
    ],
)
def test_what_has_not_the_form_of_a_timeline_is_none(wrong: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError, KeyError, AttributeError)):
        Timeline.from_json(wrong)


def test_names_hold_nothing_that_a_terminal_obeys() -> None:
    sent = {**SOUND, "rows": [{**ROW, "shared_bytes": 0, "name": "\x1b[2J" + "f" * 1000}]}
    name = Timeline.from_json(sent).rows[0].name
    assert name.startswith("?[2J")
    assert len(name) == 400
