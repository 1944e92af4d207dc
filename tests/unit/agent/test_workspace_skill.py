"""The workspace's SKILL.md speaks of what is there."""

import re

from cuda_agent.resources import workspace_template

SKILL = workspace_template() / "SKILL.md"


def test_every_command_and_file_that_it_names_is_in_the_workspace() -> None:
    text = SKILL.read_text(encoding="utf-8")
    for module in re.findall(r"python3 -m (utils\.\w+)", text):
        assert (workspace_template() / f"{module.replace('.', '/')}.py").is_file(), module
    for script in re.findall(r"bash (\S+\.sh)", text):
        assert (workspace_template() / script).is_file(), script
    for name in ("binding.cpp", "binding_registry.h", "utils"):
        assert f"`{name}" in text
        assert (workspace_template() / name).exists()


def test_it_tells_rules_order_of_work_and_every_command() -> None:
    text = SKILL.read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## What is here",
        "## Commands",
        "## Order of work",
        "## Rules",
    ]
    commands = {path.stem for path in (workspace_template() / "utils").iterdir() if path.is_file()} - {"asking"}
    assert {name for name in commands if f"utils.{name}" in text or f"utils/{name}" in text} == commands - {"__init__"}
    registry = (workspace_template() / "binding_registry.h").read_text(encoding="utf-8")
    for word in ("REGISTER_KERNEL", "check_launch", "current_stream"):
        assert word in text
        assert word in registry
