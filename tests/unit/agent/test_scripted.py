from pathlib import Path

import pytest

from cuda_agent.errors import ConfigError, ModelError
from cuda_agent.llm.model import Message, Reply
from cuda_agent.llm.scripted import Request, ScriptedModel, from_file

HELLO = [Message("user", "hello")]


def test_replies_failures_and_functions_come_in_order() -> None:
    model = ScriptedModel([Reply(text="a"), ModelError("down"), lambda request: Reply(text=request.last.content)])
    assert model.complete(HELLO, []).text == "a"
    with pytest.raises(ModelError, match="down"):
        model.complete(HELLO, [])
    assert model.complete(HELLO, []).text == "hello"


def test_an_exhausted_script_says_so() -> None:
    model = ScriptedModel([Reply()], name="mine")
    model.complete(HELLO, [])
    with pytest.raises(ModelError, match="'mine' has 1 entries and was asked for number 2"):
        model.complete(HELLO, [])


def test_a_request_knows_the_answer_to_a_call() -> None:
    request = Request([Message("tool", "old", tool_call_id="a"), Message("tool", "new", tool_call_id="a")], [])
    assert request.answer_to("a") == "new"
    with pytest.raises(LookupError):
        request.answer_to("b")


def test_a_script_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "script.json"
    file.write_text('[{"text": "t", "calls": [{"name": "Bash", "arguments": {"command": "ls"}}]}, {"gave_up": "x"}]')
    model = from_file(file)
    first, second = model.complete(HELLO, []), model.complete(HELLO, [])
    assert (first.text, first.tool_calls[0].name, first.finish_reason) == ("t", "Bash", "tool_calls")
    assert second.gave_up == "x"


@pytest.mark.parametrize("text", ["", "{}", "3", "[1]", '[{"txt": ""}]', '[{"calls": [{}]}]'])
def test_a_script_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "script.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match="JSON list"):
        from_file(file)
