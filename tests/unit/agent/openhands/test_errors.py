import dataclasses
import os
import signal
import threading
import time
from collections.abc import Callable

import pytest
from tests.e2e.llm_server import Raw, call, error, says, serving
from tests.unit.agent.openhands.asking import KEY, TASK, TOOLS, Waits, model

from cuda_agent.errors import ContextOverflow, ModelError
from cuda_agent.llm.openhands.failures import Failure, Kind
from cuda_agent.llm.openhands.retry import Failed

OVERFLOWS = [
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
    "prompt is too long: 210000 tokens > 200000 maximum",
    "Prompt contains 9001 tokens too large for model with 8192 maximum context length",
    "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "the request exceeds the available context size. try increasing the context size",
    "Requested token count exceeds the model's maximum context length of 131072 tokens.",
    "Input is too long for requested model.",
]


def failing(answer: Raw, waits: Waits) -> str:
    with serving([answer]) as server, pytest.raises(ModelError) as caught:
        model(server.base, waits).complete(TASK, TOOLS)
    return str(caught.value)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (error(401, f"Incorrect API key provided: {KEY}"), ["does not accept the key", "$PLANTED"]),
        (error(403, "Country not supported"), ["$PLANTED", "Country not supported"]),
        (error(404, "The model does not exist"), ["no model 'some/model'", "--api-base"]),
        (error(400, "temperature must be 1"), ["does not take the request", "temperature must be 1"]),
        (error(402, "Insufficient balance"), ["nothing left to spend"]),
        (error(429, "You exceeded your quota: insufficient_quota"), ["nothing left to spend"]),
    ],
    ids=["key", "forbidden", "model", "request", "payment", "quota"],
)
def test_what_will_not_pass_is_one_sentence_at_once(answer: Raw, words: list[str], waits: Waits) -> None:
    text = failing(answer, waits)
    for word in words:
        assert word in text
    assert KEY not in text
    assert "\n" not in text
    assert waits.slept == []


@pytest.mark.parametrize("text", OVERFLOWS)
@pytest.mark.parametrize("status", [400, 413])
def test_a_conversation_too_long_is_a_kind_of_its_own(text: str, status: int, waits: Waits) -> None:
    with serving([error(status, text)]) as server, pytest.raises(ContextOverflow):
        model(server.base, waits).complete(TASK, TOOLS)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "answer",
    [
        error(429, "slow down"),
        error(500, "internal error"),
        Raw(b"<html>502</html>", 502),
        error(503, "overloaded"),
        Raw(b"<html>welcome</html>", headers={"Content-Type": "text/html"}),
        Raw(b'{"id": "x", "choices": []}', headers={"Content-Type": "application/json"}),
        Raw(b'{"id": "x", "choices"', headers={"Content-Type": "application/json"}),
        Raw(b'{"id": "x", "choices": [], "padding": "................"}', cut=True),
    ],
    ids=["429", "500", "502", "503", "html", "no choices", "half a json", "cut"],
)
def test_what_may_pass_is_asked_again_and_said(answer: Raw, waits: Waits) -> None:
    with serving([answer, answer, says("well")]) as server:
        assert model(server.base, waits).complete(TASK, TOOLS).text == "well"
    assert len(server.asked) == 3  # one layer of retries: nobody below asks again
    assert len(waits.said) == 2
    assert waits.now == pytest.approx(3.0)  # one second, then two


@pytest.mark.parametrize("header", [{"retry_after": "7"}, {"retry_after_ms": "7000"}])
def test_the_providers_wish_to_wait_is_honoured(header: dict[str, str], waits: Waits) -> None:
    with serving([error(429, "slow down", **header), says("well")]) as server:
        model(server.base, waits).complete(TASK, TOOLS)
    assert waits.now == pytest.approx(7.0)


def test_a_provider_that_keeps_failing_ends_the_run_within_the_budget(waits: Waits) -> None:
    text = failing(error(503, "overloaded"), waits)
    assert "not available" in text
    assert 300 < waits.now <= 900


def test_a_server_that_is_not_there_is_given_up_soon(waits: Waits) -> None:
    with serving([says("hi")]) as server:
        base = server.base
    with pytest.raises(ModelError, match=r"cannot be reached.*--api-base"):
        model(base, waits).complete(TASK, TOOLS)
    assert 0 < waits.now <= 60


def test_a_page_that_is_no_api_is_given_up_after_a_few_replies(waits: Waits) -> None:
    text = failing(Raw(b"<html>welcome</html>", headers={"Content-Type": "text/html"}), waits)
    assert "no chat completion" in text
    assert len(waits.said) == 3


def test_a_wait_longer_than_the_runs_time_is_not_begun(waits: Waits) -> None:
    waits.time_left_s = 30.0
    text = failing(error(429, "slow down", retry_after="3600"), waits)
    assert "limits the rate" in text
    assert waits.slept == []


def test_without_time_nothing_is_sent(waits: Waits) -> None:
    with serving([says("hi")]) as server:
        asked = model(server.base, waits)
        asked.complete(TASK, TOOLS)
        waits.now = waits.time_left_s + 1
        with pytest.raises(ModelError):
            asked.complete(TASK, TOOLS)
    assert len(server.asked) == 1


@pytest.mark.parametrize("answer", [Raw(hang_s=60.0), Raw(drip_s=60.0)], ids=["silence", "a drip that never ends"])
def test_the_deadline_is_for_the_whole_answer(answer: Raw, waits: Waits) -> None:
    with serving([says("warm"), answer]) as server:
        asked = model(server.base, waits)
        asked.complete(TASK, TOOLS)
        asked.attach(time_left=lambda: 0.4, notify=waits.said.append)
        with pytest.raises(ModelError, match="in time"):
            asked.complete(TASK, TOOLS)
        assert not server.stopping.is_set()


def test_a_run_that_must_end_at_once_does_not_wait_on(waits: Waits) -> None:
    must_leave = threading.Event()

    def time_left() -> float:
        return 0.0 if must_leave.is_set() else 1e9

    with serving([Raw(hang_s=60.0)]) as server:
        asked = model(server.base, waits)
        asked.attach(time_left=time_left, notify=waits.said.append)
        thread = when(lambda: bool(server.asked), must_leave.set)
        with pytest.raises(ModelError):
            asked.complete(TASK, TOOLS)
        thread.join()
        assert not server.stopping.is_set()


def test_a_wait_between_two_requests_ends_when_the_run_must(waits: Waits) -> None:
    patience = waits.patience()
    asked_at: list[float] = []

    def attempt() -> None:
        asked_at.append(waits.now)
        raise Failed(Failure(Kind.RATE_LIMIT, "slow down", retry_after_s=600.0))

    ending = dataclasses.replace(patience, time_left=lambda: 1e9 if waits.now < 5 else 0.0)
    with pytest.raises(Failed):
        ending.persist(attempt)
    assert asked_at == [0.0]
    assert waits.now <= 6


def when(ready: Callable[[], bool], act: Callable[[], object]) -> threading.Thread:
    def wait() -> None:
        while not ready():
            time.sleep(0.02)
        time.sleep(0.1)
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_an_interrupt_ends_the_wait_and_the_model_can_be_asked_again(waits: Waits) -> None:
    with serving([Raw(hang_s=60.0), says("well", call("c1", "Bash", "{}"))]) as server:
        asked = model(server.base, waits)
        thread = when(lambda: bool(server.asked), lambda: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            asked.complete(TASK, TOOLS)
        thread.join()
        assert asked.complete(TASK, TOOLS).text == "well"
