from cuda_agent.llm.model import Reply, ToolCall, Usage
from cuda_agent.llm.replay import END, recorded, replay_model
from cuda_agent.trajectory import CallChanged, Event, MessageAdded, Notice, Observation, Rewound, TurnEnded

EVENTS: list[Event] = [
    MessageAdded(0, "system", "rules"),
    MessageAdded(0, "user", "task"),
    MessageAdded(
        1,
        "assistant",
        "looking",
        tool_calls=[{"id": "c1", "name": "Bash", "arguments": {"command": "ls"}, "raw_arguments": "{}"}],
        reasoning="hm",
        provider={"signature": "s"},
        usage={"input_tokens": 3, "output_tokens": 2, "cached_tokens": 1, "cost_usd": None},
        finish_reason="tool_calls",
    ),
    Observation(1, "c1", "Bash", "model.py", False, 0.1),
    Notice(1, "x"),
    MessageAdded(2, "assistant", "", finish_reason="stop", refusal="no"),
]


def test_a_record_gives_the_replies_as_they_were() -> None:
    first, second = recorded(EVENTS)
    assert first == Reply(
        text="looking",
        tool_calls=(ToolCall("c1", "Bash", {"command": "ls"}, "{}"),),
        usage=Usage(3, 2, 1, None),
        finish_reason="tool_calls",
        reasoning="hm",
        provider={"signature": "s"},
    )
    assert second.refusal == "no"


def test_the_model_of_a_record_gives_up_at_its_end() -> None:
    model = replay_model(recorded(EVENTS), name="builtin")
    assert model.name == "replay of builtin"
    replies = [model.complete((), ()) for _ in range(3)]
    assert [reply.gave_up for reply in replies] == [None, None, END]


def test_what_was_gone_back_over_is_not_said_again_and_what_a_person_changed_is_said_as_it_ran() -> None:
    changed = CallChanged(1, "c1", "Bash", {"command": "pwd"}, {"name": "Bash", "arguments": {"command": "ls"}})
    ended = TurnEnded(1, "s", "", {})
    events = [*EVENTS[:3], changed, *EVENTS[3:5], ended, EVENTS[5], Rewound(1, 2), MessageAdded(2, "assistant", "else")]
    replies = recorded(events)
    assert [reply.text for reply in replies] == ["looking", "else"]
    assert replies[0].tool_calls == (ToolCall("c1", "Bash", {"command": "pwd"}),)
