import json
import subprocess
import sys

import pytest

from cuda_agent.sandbox.local import LocalSandbox
from cuda_agent_tools.bash import Bash
from cuda_agent_tools.glob import Glob
from cuda_agent_tools.multi_edit import MultiEdit
from cuda_agent_tools.todo_write import TodoWrite
from cuda_agent_tools.tool import Tool


@pytest.fixture
def tools(sandbox: LocalSandbox) -> list[Tool]:
    return [Bash(sandbox), Glob(sandbox), MultiEdit(sandbox), TodoWrite()]


def test_what_the_model_reads_of_the_tools_is_short(tools: list[Tool]) -> None:
    assert sum(len(tool.description) + len(json.dumps(tool.parameters)) for tool in tools) < 5000


def test_schemas_name_the_arguments_and_hold_no_references(tools: list[Tool]) -> None:
    names = {tool.name: list(tool.parameters["properties"]) for tool in tools}
    assert names == {
        "Bash": ["command", "timeout", "description", "run_in_background"],
        "Glob": ["pattern", "path"],
        "MultiEdit": ["file_path", "edits"],
        "TodoWrite": ["todos"],
    }
    text = json.dumps([tool.parameters for tool in tools])
    assert "$ref" not in text
    assert '"title"' not in text


def test_the_items_of_lists_are_described(tools: list[Tool]) -> None:
    def items(index: int, name: str) -> list[str]:
        return list(tools[index].parameters["properties"][name]["items"]["properties"])

    assert items(2, "edits") == ["old_string", "new_string", "replace_all"]
    assert items(3, "todos") == ["content", "status", "activeForm"]


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import cuda_agent_tools, cuda_agent_tools.tool, cuda_agent_tools.sandbox; print('pydantic' in sys.modules)"
    argv = [sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"]
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout == "False\n"
