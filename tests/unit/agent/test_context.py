"""A conversation that grows past the model's limit."""

import math
from collections.abc import Sequence
from itertools import pairwise

import pytest
from tests.e2e.llm_server import Answer, Asked, error, says, serving
from tests.unit.agent.openhands.asking import TOOLS, Waits, model

from cuda_agent.context import Context, ledger
from cuda_agent.errors import ContextOverflow
from cuda_agent.llm.model import Message, Reply, ToolCall, Usage
from cuda_agent.llm.scripted import ScriptedModel

HEAD = (Message("system", "You write kernels."), Message("user", "Optimise the operator."))
LIMIT = 8_000


def turn(number: int, output: str, *, source: str = "") -> tuple[Message, ...]:
    edit = ToolCall(f"e{number}", "MultiEdit", {"file_path": f"kernels/v{number % 3}.cpp", "text": source})
    run = ToolCall(f"r{number}", "Bash", {"command": f"make {number}"})
    said = Message("assistant", f"Idea {number}: wider loads. More words.", tool_calls=(edit, run))
    return (
        said,
        Message("tool", "Edited.", tool_call_id=edit.id),
        Message("tool", f"{output}\n[FAIL] output 0: error {number}", tool_call_id=run.id),
    )


def conversation(turns: int, *, output: str = "line of output\n" * 200, source: str = "") -> list[Message]:
    messages = list(HEAD)
    for number in range(1, turns + 1):
        messages += turn(number, output, source=source)
        if number % 10 == 0:
            messages.append(Message("user", "The judge says: slower."))
    return messages


def tokens(messages: Sequence[Message]) -> float:
    """What a context counts before a provider has told it better."""
    return sum(len(one.content) + sum(len(str(call.arguments)) for call in one.tool_calls) for one in messages) / 3.0


def unpaired(messages: Sequence[Message]) -> list[str]:
    asked = [call.id for one in messages for call in one.tool_calls]
    answered = [one.tool_call_id for one in messages if one.role == "tool"]
    return [str(one) for one in set(asked) ^ set(answered)]


def test_what_fits_is_sent_as_it_is() -> None:
    messages = conversation(2)
    assert Context(LIMIT).fit(messages) == tuple(messages)
    assert Context(math.inf).fit(conversation(200)) == tuple(conversation(200))


@pytest.mark.parametrize("source", ["", "float x;\n" * 300], ids=["long outputs", "long edits"])
def test_at_every_turn_it_stays_below_the_limit_with_pairs_whole_and_the_task_first(source: str) -> None:
    context = Context(LIMIT)
    for turns in range(1, 40):
        messages = conversation(turns, source=source)
        sent = context.fit(messages)
        assert tokens(sent) <= LIMIT
        assert unpaired(sent) == []
        assert sent[0] == HEAD[0]
        assert sent[1].content.startswith(HEAD[1].content)
        assert [one.role for one in sent[1:3]] == ["user", "assistant"]
        assert sent[-3:] == tuple(messages[-3:])


def test_old_outputs_go_first_and_say_where_the_whole_text_is() -> None:
    kept: dict[str, str] = {}

    def keep(text: str) -> str:
        kept[f"/state/outputs/{len(kept)}.txt"] = text
        return f"/state/outputs/{len(kept) - 1}.txt"

    said: list[str] = []
    context = Context(LIMIT, keep=keep, notify=said.append)
    messages = conversation(9)
    sent = context.fit(messages)
    assert len(sent) == len(messages)
    assert kept["/state/outputs/0.txt"] == messages[4].content
    short = sent[4].content
    assert short.startswith("line of output")
    assert "/state/outputs/0.txt" in short
    assert short.endswith("[FAIL] output 0: error 1")
    assert len(said) == 1


def test_what_was_sent_stays_the_same_for_many_turns_so_that_it_can_be_cached() -> None:
    context = Context(LIMIT)
    prefixes = [context.fit(conversation(turns))[:12] for turns in range(5, 40)]
    changes = sum(one != other for one, other in pairwise(prefixes))
    assert changes < len(prefixes) / 3


def test_a_conversation_that_goes_back_is_sent_whole_again() -> None:
    context = Context(LIMIT)
    context.fit(conversation(40, source="float x;\n" * 300))
    assert context.fit(conversation(2)) == tuple(conversation(2))


def test_turns_left_out_stand_in_the_ledger_behind_the_task() -> None:
    sent = Context(LIMIT).fit(conversation(40, source="float x;\n" * 300))
    task = sent[1].content
    assert "- turn 1: Idea 1: wider loads. More words.; changed kernels/v1.cpp; [FAIL] output 0: error 1" in task
    first_left = int(sent[2].content.split()[1].rstrip(":"))
    assert f"- turn {first_left - 1}: " in task
    assert f"- turn {first_left}: " not in task


def test_a_ledger_keeps_the_newest_and_counts_the_rest() -> None:
    text = ledger(conversation(200), limit=2_000)
    assert len(text) < 2_200
    assert "- turn 200: " in text
    assert "older attempts are not listed" in text


def test_the_providers_count_is_believed() -> None:
    context = Context(LIMIT)
    messages = conversation(9)
    before = context.fit(messages)
    counted = Reply("ok", usage=Usage(input_tokens=2 * LIMIT))
    context.ask(ScriptedModel([counted]), messages, TOOLS)
    assert tokens(context.fit(messages, TOOLS)) < tokens(before)


def test_what_a_model_finds_too_long_is_shortened_until_it_takes_it(waits: Waits) -> None:
    def small(asked: Asked) -> Answer:
        total = sum(len(str(message)) for message in asked.messages)
        return error(400, "This model's maximum context length is 4096 tokens.") if total > 12_000 else says("done")

    with serving(small) as server:
        reply = Context(128_000).ask(model(server.base, waits), conversation(30), TOOLS)
    assert reply.text == "done"
    assert 1 < len(server.asked) < 12
    assert server.complaints == []


def test_a_model_too_small_for_the_task_is_said_so(waits: Waits) -> None:
    with (
        serving([error(400, "prompt is too long")]) as server,
        pytest.raises(ContextOverflow, match="--context-tokens"),
    ):
        Context(128_000).ask(model(server.base, waits), conversation(5), TOOLS)
    assert len(server.asked) < 12
