"""What the README promises of the tree is true of the tree."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAP = README.split("## Where things are")[1].split("\n[CONTRIBUTING")[0]


def test_every_path_in_the_map_exists() -> None:
    paths = [path for line in MAP.splitlines() for path in re.findall(r"^\| `([^`]+)`", line)]
    assert len(paths) > 5
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_part_named_beside_a_path_exists() -> None:
    missing = []
    for line in MAP.splitlines():
        cells = re.findall(r"`([^`]+)`", line)
        missing += [f"{cells[0]}{part}" for part in cells[1:] if not (ROOT / cells[0] / part).exists()]
    assert missing == []


def test_every_package_and_top_folder_is_in_the_map() -> None:
    packages = [
        folder.relative_to(ROOT).as_posix()
        for source_root in ("agent", "tools", "sandbox_image")
        for folder in (ROOT / source_root).iterdir()
        if (folder / "__init__.py").exists()
    ]
    assert [package for package in packages if f"`{package}/`" not in MAP] == []


def test_links_lead_somewhere() -> None:
    targets = [target for target in re.findall(r"\]\(([^)]+)\)", README) if "://" not in target]
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_ci_runs_what_the_readme_calls_the_tests() -> None:
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "make test" in README
    assert "\nmake test\n" in ci


def test_make_help_lists_the_verbs_of_the_house() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    verbs = re.findall(r"^([a-z]+):.*## ", makefile, flags=re.MULTILINE)
    assert {"help", "install", "demo", "check", "test", "fix"} <= set(verbs)
