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


def test_only_the_composition_root_knows_concrete_models_sandboxes_and_tools_together(graph: grimp.ImportGraph) -> None:
    concrete = {"cuda_agent.sandbox.local", "cuda_agent_tools.bash", "cuda_agent_tools.multi_edit"}
    knowing = {
        importer
        for module in ("cuda_agent_tools.bash", "cuda_agent_tools.glob", "cuda_agent_tools.multi_edit")
        for importer in graph.find_modules_that_directly_import(module)
        if importer.split(".")[0] == "cuda_agent"
    }
    assert knowing == {"cuda_agent.runs.single"}
    assert concrete <= graph.find_modules_directly_imported_by("cuda_agent.runs.single")


def test_the_design_notes_list_the_layers_that_are_checked() -> None:
    root = Path(__file__).resolve().parents[3]
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract.get("containers") == ["cuda_agent"])
    there = [layer.split(" | ") for layer in layers if not layer.startswith("(")]
    notes = (root / "docs/design.md").read_text(encoding="utf-8")
    table = notes.split("| layer | holds |")[1].split("\n\n")[0]
    assert [re.findall(r"`(\w+)`", row.split("|")[1]) for row in table.splitlines()[2:]] == there
