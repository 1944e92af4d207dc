"""The same command again: what is finished is left alone, what is not goes on, and only one batch is in a folder."""

import json
import shutil

import pytest
from tests.unit.agent.batch.field import Field, by_name

from cuda_agent.batch.batch_dir import BatchDir
from cuda_agent.batch.listing import Selection
from cuda_agent.batch.results import Category
from cuda_agent.errors import ConfigError


def test_what_is_finished_is_left_alone_and_what_failed_is_tried_again(field: Field) -> None:
    field.lay(won="win", gave="nothing", bad="bad", broken="daemon")
    first = field.carry_out(retries=0)
    assert by_name(first)["broken"].category is Category.INFRASTRUCTURE
    before = {path: path.read_bytes() for path in field.batch.glob("runs/*/*")}
    second = field.carry_out(retries=0)
    assert field.heard.began_ == ["broken"]
    assert {path: path.read_bytes() for path in field.batch.glob("runs/*/*")} == before
    assert by_name(second)["broken"].failures == 2
    assert (first.results.groups[0].numbers.counted, second.results.groups[0].numbers.counted) == (2, 2)


def test_other_settings_are_refused_by_name(field: Field) -> None:
    field.lay(one="win")
    field.carry_out(settings={"max_turns": 50})
    with pytest.raises(ConfigError, match=r"max_turns 50, now 60.*precision tf32, now ieee.*--batch-dir"):
        field.carry_out(settings={"max_turns": 60, "precision": "ieee"})
    assert field.starts("one") == ["optimize"]


def test_a_batch_older_than_a_setting_goes_on_as_long_as_that_is_left_alone(field: Field) -> None:
    field.lay(one="win")
    field.carry_out()
    document = json.loads((field.batch / "batch.json").read_text())
    del document["settings"]["operator_timeout_s"]
    (field.batch / "batch.json").write_text(json.dumps(document))
    with pytest.raises(ConfigError, match=r"\(operator_timeout_s 300\.0, now 20\.0\)"):
        field.carry_out(settings={"operator_timeout_s": 20.0})
    field.carry_out()
    assert field.starts("one") == ["optimize"]
    assert json.loads((field.batch / "batch.json").read_text())["settings"]["operator_timeout_s"] == 300.0


def test_an_operator_that_is_missing_or_changed_is_refused_by_name(field: Field) -> None:
    field.lay(one="win", two="win")
    field.carry_out()
    field.lay(one="tie")
    with pytest.raises(ConfigError, match=r"changed since their runs began.*: one;"):
        field.carry_out()
    field.lay(one="win")
    (field.operators / "two.py").unlink()
    with pytest.raises(ConfigError, match=r"not among those named now: two;"):
        field.carry_out()


def test_a_file_that_could_not_be_used_may_be_mended(field: Field) -> None:
    field.lay(one="bad")
    assert by_name(field.carry_out())["one"].category is Category.UNUSABLE
    field.lay(one="win")
    assert by_name(field.carry_out())["one"].status == "win"


def test_a_batch_may_grow_and_every_run_keeps_its_name(field: Field) -> None:
    field.lay(op_1="win", op_2="win", op_10="win")
    first = field.carry_out(selection=Selection(limit=2))
    assert list(by_name(first)) == ["op_1", "op_2"]
    second = field.carry_out(models=("builtin", "vendor/name"))
    assert list(by_name(second)) == [
        "op_1", "op_1--vendor_name", "op_2", "op_2--vendor_name", "op_10--builtin", "op_10--vendor_name"
    ]  # fmt: skip
    assert field.starts("op_1") == ["optimize", "optimize"]
    assert [group.model for group in second.results.groups] == ["builtin", "vendor/name"]


@pytest.mark.parametrize("word", ["one", "on?", "gave_up"])
def test_an_ended_run_is_begun_anew_by_name_or_by_how_it_ended_and_the_old_one_is_kept(field: Field, word: str) -> None:
    field.lay(one="nothing", two="win")
    field.carry_out()
    old = (field.batch / "runs/one/trajectory.jsonl").read_bytes()
    field.lay(one="win")
    outcome = field.carry_out(rerun=(word,))
    assert by_name(outcome)["one"].status == "win"
    assert field.heard.began_ == ["one"]
    assert (field.batch / "earlier/one-1/trajectory.jsonl").read_bytes() == old


def test_a_refused_file_is_tried_again_where_that_is_asked_for(field: Field) -> None:
    field.lay(one="bad", two="win")
    field.carry_out()
    field.carry_out(rerun=("operator",))
    assert field.heard.began_ == ["one"]


def test_a_folder_that_is_in_use_or_something_else_is_refused(field: Field) -> None:
    field.lay(one="win")
    with BatchDir(field.batch).lock(), pytest.raises(ConfigError, match="running in another process"):
        field.carry_out()
    shutil.rmtree(field.batch)
    field.batch.mkdir()
    (field.batch / "something").touch()
    with pytest.raises(ConfigError, match="no batch's folder"):
        field.carry_out()
    assert [path.name for path in field.batch.iterdir()] == ["something"]


def test_a_torn_line_of_the_log_is_cut_off_and_damage_before_it_is_refused(field: Field) -> None:
    field.lay(one="win", bad="bad")
    field.carry_out()
    log = field.batch / "attempts.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole + b'{"schema": 1, "job": "on')
    assert by_name(field.carry_out())["bad"].category is Category.UNUSABLE
    assert log.read_bytes() == whole
    log.write_bytes(b"nonsense\n" + whole)
    with pytest.raises(ConfigError, match="damaged in line 1"):
        field.carry_out()


def test_a_run_that_cannot_be_gone_on_with_is_kept_and_begun_anew(field: Field) -> None:
    field.lay(one="spoilt")
    assert by_name(field.carry_out())["one"].status == "win"
    assert field.starts("one") == ["optimize", "resume", "optimize"]
    assert (field.batch / "earlier/one-1/run.json").exists()


def test_what_was_killed_before_it_was_a_run_is_begun_anew(field: Field) -> None:
    field.lay(one="daemon")
    field.carry_out(retries=0)
    run = field.batch / "runs/one"
    run.mkdir()
    (run / "leftover").touch()  # killed before there was a run.json
    field.lay(one="win")
    assert by_name(field.carry_out())["one"].status == "win"
    assert not (run / "leftover").exists()


def test_names_that_are_no_text_come_back_as_they_are(field: Field) -> None:
    field.lay(one="win")
    for name in ("\udcff", "gr\u00fc\u00df"):
        shutil.copy(field.operators / "one.py", field.operators / f"{name}.py")
    assert field.carry_out().exit_code == 0
    assert field.carry_out().exit_code == 0
    assert field.heard.began_ == []


def test_a_batch_of_another_version_is_one_sentence(field: Field) -> None:
    field.lay(one="win")
    field.carry_out()
    file = field.batch / "batch.json"
    document = json.loads(file.read_text())
    for change in ({"schema": 99}, {"jobs": [{"name": "one"}]}):
        file.write_text(json.dumps(document | change))
        with pytest.raises(ConfigError, match=r"schema 1|not as this version writes it"):
            field.carry_out()


def test_the_documents_say_what_came_out(field: Field) -> None:
    field.lay(one="win", two="tie", three="nothing", four="bad")
    field.carry_out()
    document = json.loads((field.batch / "batch.json").read_text())
    assert (document["status"], document["source"]) == ("done", "a test")
    overall = document["results"][0]
    assert (overall["counted"], overall["correct"]) == (3, 2)
    assert overall["held"] == {"gpu_s": 1.0, "gpu_wait_s": 0.5}
    assert overall["cost_usd"] == 2.25
    csv = (field.batch / "results.csv").read_text().splitlines()
    assert len(csv) == 5
    assert all(",a test," in line for line in csv[1:])
    assert [word for line in csv for word in ("win: at 98 %", "tie: at 98 %") if word in line] == [
        "win: at 98 %",
        "tie: at 98 %",
    ]
    markdown = (field.batch / "results.md").read_text()
    assert "| 1 | win: at 98 % |" in markdown
    assert markdown.count("Rules: target cpu, precision ieee; isolation: shared-uid;") == 4  # below every table
    assert "Unusable (1):\n- four: " in markdown
