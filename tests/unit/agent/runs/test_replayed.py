"""Which settings of a record count when it is executed anew."""

from pathlib import Path
from typing import Any

from cuda_agent.config import Settings
from cuda_agent.runs.replayed import settings_of


def replayed(tmp_path: Path, **recorded: Any) -> Settings:
    rules = {"precision": "ieee", "libraries": "own", "output_lifetime": "held", "polish": 2, "max_turns": 7}
    document = {
        "settings": rules | {"model": "builtin"} | recorded,
        "operator": {"path": "op.py"},
        "place": {"target": "cpu"},
    }
    return settings_of(document, {"sandbox": "local", "python": None}, {"HOME": str(tmp_path)})


def test_the_records_rules_and_limits_count(tmp_path: Path) -> None:
    now = replayed(tmp_path, operator_timeout_s=800.0)
    assert (now.precision, now.libraries, now.polish, now.max_turns) == ("ieee", "own", 2, 7)
    assert now.operator_timeout_s == 800.0


def test_a_record_from_before_there_was_a_limit_has_the_usual_one(tmp_path: Path) -> None:
    assert replayed(tmp_path).operator_timeout_s == 300.0
