import pytest

from cuda_agent.runs.difference import Difference, compare
from cuda_agent.trajectory import Event, MessageAdded, Observation, Rewound, TurnEnded


def said(text: str, *, error: bool = False, turn: int = 1, identity: str = "c1") -> Observation:
    return Observation(turn, identity, "Bash", text, error, 0.1)


@pytest.mark.parametrize(
    ("then", "now", "kind"),
    [
        (said("built"), said("built"), "same"),
        (said("took 1.25e-3 ms, 7 rounds"), said("took 80 ms, 12 rounds"), "numbers"),
        (said("at 0x7f01"), said("at 0xdeadbeef"), "numbers"),
        (said("in /a/runs/one/workspace/x.cpp"), said("in /tmp/other/workspace/x.cpp"), "numbers"),
        (said("see /tmp/cuda-agent-x1y2/outputs/1"), said("see /var/tmp/cuda-agent-zz/outputs/1"), "numbers"),
        (said("in /tmp/run/workspace/x.cpp"), said("in /workspace/x.cpp"), "numbers"),
        (
            said("all of it is in /tmp/cuda-agent-scratch-a_b1c2d3/outputs/9f3ac01b.txt]"),
            said("all of it is in /var/lib/sandbox/outputs/ab12cd34.txt]"),
            "numbers",
        ),
        (said("[PASS] right"), said("[PASS] wrong"), "text"),
        (said("a\nb"), said("a"), "text"),
        (said("nope", error=True), said("nope"), "outcome"),
        (said("x\n[exit code 1]"), said("x\n[exit code 2]"), "outcome"),
        (said("x\n[exit code 1]"), said("x"), "outcome"),
    ],
)
def test_a_pair_of_answers_has_a_kind(then: Observation, now: Observation, kind: str) -> None:
    assert [one.kind for one in compare([then], [now])] == [kind]


def test_the_first_line_that_really_differs_is_named() -> None:
    (one,) = compare([said("took 1 ms\nright\nend")], [said("took 2 ms\nwrong\nend")])
    assert one == Difference(1, "c1", "Bash", "text", "right", "wrong")


def test_a_run_that_ended_earlier_lacks_calls_and_a_longer_one_has_more() -> None:
    first, second = said("a"), said("b", turn=2, identity="c2")
    chatter = MessageAdded(1, "assistant", "I look")
    assert [one.kind for one in compare([first, chatter, second], [chatter, first])] == ["same", "missing"]
    assert [one.kind for one in compare([], [first])] == ["added"]


def test_calls_that_do_not_count_are_no_part_of_the_record() -> None:
    end = TurnEnded(0, "s", "", {})
    own = Observation(1, "person-1", "Bash", "ls", False, 0.1, by="person")
    record: list[Event] = [end, said("gone back over"), Rewound(0, 1), own, said("a")]
    assert [one.kind for one in compare(record, [end, said("a")])] == ["same"]
