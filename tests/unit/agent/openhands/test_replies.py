import pytest
from tests.e2e.llm_server import Asked, call, error, says, serving
from tests.unit.agent.openhands.asking import KEY, TASK, TOOLS, Waits, answered, model, ran

from cuda_agent.llm.model import Message, Reply, ToolCall


def reply_to(answer: object, waits: Waits) -> Reply:
    with serving([answer]) as server:  # type: ignore[list-item]
        return model(server.base, waits).complete(TASK, TOOLS)


def as_message(reply: Reply) -> Message:
    return Message(
        "assistant", reply.text, tool_calls=reply.tool_calls, reasoning=reply.reasoning, provider=reply.provider
    )


def test_text_calls_and_tokens_arrive(waits: Waits) -> None:
    reply = reply_to(says("First I look.", call("c1", "Bash", {"command": "ls"})), waits)
    assert (reply.text, reply.finish_reason) == ("First I look.", "tool_calls")
    assert [(one.id, one.name, one.arguments) for one in reply.tool_calls] == [("c1", "Bash", {"command": "ls"})]
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cost_usd) == (100, 7, None)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ('{"command": ls"}', None),
        ('{"command": "ls', None),
        ('["ls"]', None),
        ("", {}),
        ('{"command": "a\nb"}', {"command": "a\nb"}),
    ],
    ids=["no json", "cut off", "a list", "nothing", "a raw line end"],
)
def test_only_the_call_that_is_no_json_is_malformed(written: str, read: object, waits: Waits) -> None:
    reply = reply_to(says(None, call("good", "Bash", {"command": "ls"}), call("other", "Bash", written)), waits)
    good, other = reply.tool_calls
    assert good == ToolCall("good", "Bash", {"command": "ls"}, '{"command": "ls"}')
    assert (other.id, other.arguments, other.raw_arguments) == ("other", read, written)


def test_each_call_gets_an_id_of_its_own_whatever_the_server_called_it(waits: Waits) -> None:
    history = answered((Message("assistant", "", tool_calls=(ran("call_0"),)), ["a.py"]))
    calls = [
        call("call_0", "Bash", "{}"),
        call("call_0", "Bash", "{}"),
        call(None, "Glob", "{}"),
        call("", "Glob", "{}"),
    ]
    with serving([says(None, *calls), says("done")]) as server:
        asked = model(server.base, waits)
        reply = asked.complete(history, TOOLS)
        ids = [one.id for one in reply.tool_calls]
        assert len({"call_0", *ids}) == 5
        assert all(ids)
        after = [Message("tool", "x", tool_call_id=one) for one in ids]
        asked.complete([*history, as_message(reply), *after], TOOLS)
    assert server.complaints == []


def test_a_call_without_a_name_is_a_call_that_can_be_answered(waits: Waits) -> None:
    with serving([says(None, call("c1", None, "{}")), says("done")]) as server:
        asked = model(server.base, waits)
        reply = asked.complete(TASK, TOOLS)
        assert [(one.id, one.name) for one in reply.tool_calls] == [("c1", "")]
        asked.complete([*TASK, as_message(reply), Message("tool", "no such tool", tool_call_id="c1")], TOOLS)
    assert server.complaints == []


@pytest.mark.parametrize(
    ("answer", "refusal"),
    [
        (says(None, refusal="I will not."), "I will not."),
        (says(None, finish="content_filter"), "content filter"),
        (error(400, "Output blocked by content filtering policy"), "content filtering policy"),
    ],
    ids=["refusal", "filtered reply", "filtered request"],
)
def test_a_refusal_is_a_reply(answer: object, refusal: str, waits: Waits) -> None:
    assert refusal in (reply_to(answer, waits).refusal or "")
    assert waits.slept == []


def test_a_reply_cut_off_by_its_length_says_so(waits: Waits) -> None:
    reply = reply_to(says("I was about to", finish="length"), waits)
    assert (reply.finish_reason, reply.refusal) == ("length", None)


@pytest.mark.parametrize("content", [None, ""])
def test_an_empty_reply_is_a_reply_and_is_never_sent_back_empty(content: str | None, waits: Waits) -> None:
    with serving([says(content)]) as server:
        asked = model(server.base, waits)
        reply = asked.complete(TASK, TOOLS)
        asked.complete([*TASK, as_message(reply), Message("user", "Go on.")], TOOLS)
    assert (reply.text, reply.tool_calls, reply.refusal) == ("", (), None)
    assert server.complaints == []


def test_empty_texts_beside_calls_and_as_output_are_not_sent(waits: Waits) -> None:
    turn = Message("assistant", "", tool_calls=(ran("c1", "true"), ToolCall("c2", "Bash", None, '{"command": ls"}')))
    with serving([says("done")]) as server:
        model(server.base, waits).complete(answered((turn, ["", "not a JSON object"])), TOOLS)
    assert server.complaints == []
    assert server.asked[0].messages[3]["content"] == "(no output)"


def test_what_the_provider_added_comes_back_unchanged(waits: Waits) -> None:
    blocks = [{"type": "thinking", "thinking": "hm", "signature": "SIG-1"}, {"type": "redacted_thinking", "data": "x"}]
    signed = call("c1", "Bash", "{}", extra_content={"google": {"thought_signature": "SIG-2"}})
    with serving([says("a", signed, thinking_blocks=blocks), says("done")]) as server:
        asked = model(server.base, waits)
        reply = asked.complete(TASK, TOOLS)
        asked.complete([*TASK, as_message(reply), Message("tool", "ok", tool_call_id="c1")], TOOLS)
    sent = server.asked[1].messages[2]
    assert sent["thinking_blocks"] == blocks
    assert sent["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "SIG-2"}}


@pytest.mark.parametrize("wanted", [True, False], ids=["insists on it", "refuses it"])
def test_reasoning_goes_back_unless_the_server_refuses_it(wanted: bool, waits: Waits) -> None:
    def strict(asked: Asked) -> object:
        if asked.number == 1:
            return says("a", call("c1", "Bash", "{}"), reasoning_content="because")
        if ("reasoning_content" in asked.messages[2]) is not wanted:
            return error(400, "The reasoning_content in the thinking mode must be handled otherwise")
        return says("done")

    with serving(strict) as server:  # type: ignore[arg-type]
        asked = model(server.base, waits)
        reply = asked.complete(TASK, TOOLS)
        assert reply.reasoning == "because"
        history = [*TASK, as_message(reply), Message("tool", "ok", tool_call_id="c1")]
        assert [asked.complete(history, TOOLS).text for _ in range(2)] == ["done", "done"]
    assert len(server.asked) == (3 if wanted else 4)  # the first refusal is remembered


def test_a_key_in_a_reply_is_taken_out_of_every_part(waits: Waits) -> None:
    answer = says(
        f"text {KEY}", call("c1", "Bash", {"command": f"echo {KEY}", KEY: [KEY]}), reasoning_content=f"why {KEY}",
        thinking_blocks=[{"type": "thinking", "thinking": KEY, "signature": "s"}],
    )  # fmt: skip
    reply = reply_to(answer, waits)
    assert KEY not in repr(reply)
    assert reply.tool_calls[0].arguments == {"command": "echo [key]", "[key]": ["[key]"]}
