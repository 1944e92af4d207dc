import pytest

from cuda_agent_tools.todo_write import TodoWrite
from cuda_agent_tools.tool import ToolError


def todo(content: str, status: str) -> dict[str, str]:
    return {"content": content, "status": status, "activeForm": content + "ing"}


def test_the_plan_is_kept_and_counted() -> None:
    tool = TodoWrite()
    text = tool.run({"todos": [todo("a", "completed"), todo("b", "in_progress"), todo("c", "pending")]}).text
    assert text == "Plan kept: 1 completed, 1 in progress, 1 pending."
    assert [(item.content, item.status, item.activeForm) for item in tool.todos][1] == ("b", "in_progress", "bing")


def test_a_new_plan_replaces_the_old_one() -> None:
    tool = TodoWrite()
    tool.run({"todos": [todo("a", "pending")]})
    tool.run({"todos": []})
    assert tool.todos == ()


def test_two_steps_at_a_time_are_advised_against() -> None:
    text = TodoWrite().run({"todos": [todo("a", "in_progress"), todo("b", "in_progress")]}).text
    assert "a single one in_progress" in text


def test_a_refused_plan_leaves_the_old_one() -> None:
    tool = TodoWrite()
    tool.run({"todos": [todo("a", "pending")]})
    with pytest.raises(
        ToolError, match=r"`todos\[0\].status` should be 'pending', 'in_progress' or 'completed', got 'x'"
    ):
        tool.run({"todos": [todo("b", "x")]})
    with pytest.raises(ToolError, match="`todos` is missing"):
        tool.run({})
    assert [item.content for item in tool.todos] == ["a"]
