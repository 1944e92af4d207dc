import re
import tomllib
from pathlib import Path

import grimp
import pytest

ROOM = "cuda_agent_judge.report"


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("cuda_agent", "cuda_agent_tools", "cuda_agent_judge", cache_dir=None)


def imported(graph: grimp.ImportGraph, package: str, other: str) -> set[str]:
    """Modules of `other` that a module of `package` imports directly."""
    inside = {package} | graph.find_descendants(package)
    found: set[str] = set()
    for module in inside:
        found |= {name for name in graph.find_modules_directly_imported_by(module) if name.split(".")[0] == other}
    return found


def test_the_host_reads_the_judges_report_and_nothing_else_of_it(graph: grimp.ImportGraph) -> None:
    assert imported(graph, "cuda_agent", "cuda_agent_judge") == {ROOM}


def test_the_report_brings_nothing_of_the_judge_with_it(graph: grimp.ImportGraph) -> None:
    assert {name for name in graph.find_upstream_modules(ROOM) if name != "cuda_agent_judge"} == set()


def test_the_sdk_and_litellm_are_known_to_one_module() -> None:
    graph = grimp.build_graph("cuda_agent", include_external_packages=True, cache_dir=None)
    for package in ("openhands", "litellm"):
        importers = graph.find_modules_that_directly_import(package) if package in graph.modules else set()
        assert importers <= {"cuda_agent.llm.openhands.sdk"}, package
    assert "openhands" in graph.modules


def test_only_the_composition_root_knows_the_concrete_tools_and_one_module_the_concrete_sandboxes(
    graph: grimp.ImportGraph,
) -> None:
    for concrete, root in (("cuda_agent_tools.bash", "single"), ("cuda_agent_tools.multi_edit", "single"),
                           ("cuda_agent.sandbox.local", "sandboxes")):  # fmt: skip
        importers = graph.find_modules_that_directly_import(concrete)
        knowing = {module for module in importers if not module.startswith("cuda_agent_tools.")}
        assert knowing == {f"cuda_agent.runs.{root}"}, concrete


def test_the_design_notes_list_the_layers_that_are_checked() -> None:
    root = Path(__file__).resolve().parents[3]
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract.get("containers") == ["cuda_agent"])
    there = [layer.split(" | ") for layer in layers if not layer.startswith("(")]
    notes = (root / "docs/design.md").read_text(encoding="utf-8")
    table = notes.split("| layer | holds |")[1].split("\n\n")[0]
    assert [re.findall(r"`(\w+)`", row.split("|")[1]) for row in table.splitlines()[2:]] == there
