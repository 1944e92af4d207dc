from datetime import UTC, datetime, timedelta

import pytest
from tests.unit.agent.fakes import Heard

from cuda_agent.cli.player import LONGEST_S, play, step_through
from cuda_agent.history import History
from cuda_agent.trajectory import Notice

START = datetime(2026, 1, 1, tzinfo=UTC)


def history(*seconds: float) -> History:
    events = tuple(Notice(number, f"event {number}") for number in range(len(seconds)))
    return History(events, tuple(START + timedelta(seconds=after) for after in seconds), (), ())


def test_events_come_in_their_own_time_divided_by_the_speed() -> None:
    heard, slept = Heard(), list[float]()
    play(history(0, 4, 5), heard, speed=2, sleep=slept.append)
    assert [event.turn for event in heard.of("notice")] == [0, 1, 2]
    assert slept == [2.0, 0.5]


def test_no_pause_is_endless_or_negative_and_without_a_speed_there_is_none() -> None:
    slept = list[float]()
    play(history(0, 3600, 3590), Heard(), speed=1, sleep=slept.append)
    assert slept == [LONGEST_S, 0.0]
    play(history(0, 4), Heard(), speed=0, sleep=slept.append)
    assert len(slept) == 2


@pytest.mark.parametrize("leaving", [EOFError, KeyboardInterrupt])
def test_who_leaves_without_enter_gets_a_line_of_their_own(
    capsys: pytest.CaptureFixture[str], leaving: type[BaseException]
) -> None:
    def ask(question: str) -> str:
        print(question, end="")
        raise leaving

    step_through(history(0, 1), lambda number: True, ask)
    assert capsys.readouterr().out.endswith(": \n")


def test_step_by_step_asks_only_after_what_was_shown() -> None:
    asked: list[str] = []
    answers = iter(["", "q"])
    shown: list[int] = []

    def show(number: int) -> bool:
        shown.append(number)
        return number != 1

    def ask(prompt: str) -> str:
        asked.append(prompt)
        return next(answers)

    step_through(history(0, 0, 0, 0, 0), show, ask)
    assert shown == [0, 1, 2]
    assert len(asked) == 2


def test_the_end_of_the_input_leaves() -> None:
    shown: list[int] = []

    def show(number: int) -> bool:
        shown.append(number)
        return True

    def ask(prompt: str) -> str:
        raise EOFError

    step_through(history(0, 0), show, ask)
    assert shown == [0]
