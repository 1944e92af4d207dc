import threading

import pytest
from tests.e2e.llm_server import Answer, call, error, says, serving
from tests.unit.agent.openhands.asking import TASK, TOOLS, Waits, model

from cuda_agent.errors import ModelError
from cuda_agent.llm.openhands.model import Backend, OpenHandsModel
from cuda_agent.llm.openhands.options import Options
from cuda_agent.llm.probe import probe


def test_what_fails_while_loading_is_told_at_the_first_request() -> None:
    def load(options: Options) -> Backend:
        raise ImportError(f"no module for {options.key}")

    broken = OpenHandsModel(Options("openai/x", key="sk-planted-0123"), {}, load=load)
    for _ in range(2):
        with pytest.raises(ModelError, match=r"no module for \[key\].*install"):
            broken.complete(TASK, TOOLS)


def test_making_a_model_does_not_wait_for_its_loading_and_a_request_does_not_wait_past_the_runs_end() -> None:
    may_load = threading.Event()

    def load(options: Options) -> Backend:
        may_load.wait(30)
        raise ImportError

    waiting = OpenHandsModel(Options("openai/x"), {}, load=load)
    waiting.attach(time_left=lambda: 0.05, notify=lambda text: None)
    with pytest.raises(ModelError, match="time"):
        waiting.complete(TASK, TOOLS)
    may_load.set()


def test_a_probe_says_what_works_and_what_does_not(waits: Waits) -> None:
    answers: list[Answer] = [
        says(None, call("c", "report", {"number": 7})),
        says("Seven!"),
        error(401, "bad key"),
        says(None, refusal="no"),
    ]
    with serving(answers) as server:
        asked = model(server.base, waits)
        found = [probe(asked) for _ in answers]
    assert [one.works for one in found] == [True, False, False, False]
    for one, word in zip(
        found, ["calls tools", "called no tool (it said 'Seven!')", "$PLANTED", "refused"], strict=True
    ):
        assert word in one.text
    assert found[0].usage.input_tokens == 100
