"""The policy reads what it is answered: another answer, another next call."""

import base64
import itertools
import json
import zlib

import pytest
from tests.unit.agent.builtin.conversation import Desk, profiled, report
from tests.unit.agent.builtin.graphs import chain, dense_product, diagonal_product

from cuda_agent.llm.builtin.policy import BuiltinModel
from cuda_agent.llm.model import Message


def test_it_plans_first_and_reads_the_graph() -> None:
    desk = Desk(diagonal_product())
    reply = desk.turn()
    assert [call.name for call in reply.tool_calls] == ["TodoWrite", "Bash"]
    assert reply.usage.cost_usd == 0.0
    assert "utils.analysis" in desk.commands[0]


def test_it_profiles_the_native_implementation_and_says_what_it_expects_before_it_writes() -> None:
    desk = Desk(diagonal_product(2048))
    desk.answers["--baseline"] = lambda *_: report("measured", latency_ms={"compile": {"median": 56.0}})
    desk.until("--baseline")
    assert not desk.files
    reply = desk.turn()
    assert "56 ms" in reply.text
    assert "I expect about" in reply.text
    assert sorted(desk.files) == [
        "kernels/diagonal_product.cpp",
        "kernels/diagonal_product_binding.cpp",
        "model_new.py",
    ]


def test_a_whole_run_tries_every_variant_once_and_ends_with_the_fastest_in_place() -> None:
    times = {"cached": 3.0, "streamed": 1.5, "small-chunks": 2.0}
    desk = Desk(diagonal_product())
    seen: list[str] = []

    def profile(desk: Desk, _command: str) -> str:
        seen.append(desk.variant)
        return profiled(times[desk.variant])

    desk.answers["utils.profiling"] = profile
    reply = desk.until_over()
    assert sorted(seen) == sorted(times)
    assert desk.variant == "streamed"
    assert reply.gave_up is None
    assert "1.5 ms" in reply.text


def test_the_ratio_decides_and_not_the_moment_of_the_machine() -> None:
    # When "cached" was timed the machine was quiet: less time than "streamed", yet slower than torch.compile.
    seen = {"cached": profiled(3.0, native=2.4), "streamed": profiled(6.0, native=7.2)}
    desk = Desk(diagonal_product())
    desk.answers["utils.profiling"] = lambda desk, _: seen.get(desk.variant) or profiled(8.0, native=7.2)
    desk.until_over()
    assert desk.variant == "streamed"


@pytest.mark.parametrize("step", ["compile.sh", "utils.verification", "utils.profiling"])
@pytest.mark.parametrize("status", ["compile_error", "incorrect", "runtime_error", "timeout"])
def test_a_refused_variant_is_followed_by_the_conservative_one(step: str, status: str) -> None:
    desk = Desk(chain())
    refused: list[str] = []

    def refuse_all_but_plain(desk: Desk, _command: str) -> str:
        if desk.variant == "plain":
            return profiled(2.0) if step == "utils.profiling" else report("correct")
        refused.append(desk.variant)
        return report(status, reason="it went wrong")

    desk.answers[step] = refuse_all_but_plain
    desk.until(f"{step} --json")
    desk.turn()
    assert desk.variant == "plain"
    assert "it went wrong" in desk.last.text
    assert desk.until_over().gave_up is None
    assert desk.variant == "plain"
    assert len(set(refused)) == len(refused), "a refused variant is not tried twice"


def test_it_gives_up_when_even_the_conservative_variant_is_refused() -> None:
    desk = Desk(chain())
    desk.answers["utils.verification"] = lambda *_: report("incorrect", reason="output 0 is 3.0 off")
    reply = desk.until_over()
    assert reply.gave_up is not None
    assert "output 0 is 3.0 off" in reply.gave_up


def test_another_timing_gives_another_ending() -> None:
    def best_of(first: float, rest: float) -> str:
        desk = Desk(chain())
        times = itertools.chain([first], itertools.repeat(rest))
        desk.answers["utils.profiling"] = lambda *_: profiled(next(times))
        desk.until_over()
        return desk.variant

    assert best_of(1.0, 2.0) != best_of(2.0, 1.0)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("warning: something {odd} happened\n", ""),
        ("", "\n\n[exit code 1]"),
        ('{"schema": 7}\nnoise\n', '\n[stderr]\n{"not": "a report"}'),
    ],
)
def test_a_report_is_found_among_noise(before: str, after: str) -> None:
    desk = Desk(chain())
    desk.answers["utils.analysis"] = lambda *_: before + report("measured", analysis=chain()) + after
    desk.turn()
    desk.turn()
    assert "--baseline" in desk.commands[-1]


def test_an_analysis_too_long_to_be_shown_is_asked_for_again_in_packed_form() -> None:
    desk = Desk(chain())
    whole = report("measured", analysis=chain())

    def answer(_desk: Desk, command: str) -> str:
        if "zlib" not in command:
            return whole[:300] + "\n[... 9,000 characters cut ...]\n" + whole[-300:]
        return "packed:" + base64.b64encode(zlib.compress(whole.encode())).decode()

    desk.answers["utils.analysis"] = answer
    desk.until("--baseline")
    assert sum("utils.analysis" in command for command in desk.commands) == 2


def test_it_gives_up_on_answers_that_it_cannot_read() -> None:
    desk = Desk(chain())
    desk.answers["utils.verification"] = lambda *_: "Segmentation fault"
    reply = desk.until_over()
    assert "Segmentation fault" in (reply.gave_up or "")


def test_an_inconclusive_profile_is_taken_again() -> None:
    desk = Desk(chain())
    answers = itertools.chain([report("inconclusive", reason="too noisy")], itertools.repeat(profiled(2.0)))
    desk.answers["utils.profiling"] = lambda *_: next(answers)
    desk.until("utils.profiling --json")
    first = desk.variant
    desk.turn()
    assert "utils.profiling" in desk.commands[-1]
    assert desk.variant == first


def test_without_a_recipe_it_gives_up_and_names_the_operations() -> None:
    desk = Desk(dense_product())
    reply = desk.until_over()
    assert "aten.cumsum" in (reply.gave_up or "")
    assert not desk.files


def test_an_operator_that_cannot_be_analysed_ends_the_run_with_the_reason() -> None:
    desk = Desk(chain())
    desk.answers["utils.analysis"] = lambda *_: report("operator_error", reason="the operator is random")
    assert "the operator is random" in (desk.until_over().gave_up or "")


def test_told_that_it_is_short_of_the_target_it_admits_that_nothing_is_left() -> None:
    desk = Desk(chain())
    assert desk.until_over().gave_up is None
    desk.messages.append(Message("user", "The verdict is a tie, short of the target."))
    reply = desk.turn()
    assert reply.gave_up is not None
    assert reply.tool_calls == ()


def test_files_that_are_there_already_are_removed_and_written_anew() -> None:
    desk = Desk(chain())
    desk.files["model_new.py"] = "something else"
    desk.until_over()
    assert "rm -f model_new.py" in desk.commands
    assert "class ModelNew" in desk.files["model_new.py"]


def test_edits_that_were_elided_are_written_anew() -> None:
    desk = Desk(chain())
    desk.until("utils.verification")
    position = next(k for k, message in enumerate(desk.messages) if "Created kernels/pointwise" in message.content)
    old = desk.messages[position]
    desk.messages[position] = Message("tool", "[elided]", tool_call_id=old.tool_call_id)
    desk.turn()
    assert desk.commands[-1].startswith("rm -f kernels/")
    assert desk.until_over().gave_up is None


def test_it_can_be_resumed_anywhere() -> None:
    desk = Desk(chain())
    desk.until_over()
    assistants = [k for k, message in enumerate(desk.messages) if message.role == "assistant"]
    for position, said in zip(assistants, desk.replies, strict=True):
        again = BuiltinModel().complete(desk.messages[:position], [])
        assert again == said


def test_call_ids_are_never_used_twice() -> None:
    desk = Desk(chain())
    desk.until_over()
    ids = [call.id for reply in desk.replies for call in reply.tool_calls]
    assert len(set(ids)) == len(ids)


def test_calls_are_json() -> None:
    desk = Desk(chain())
    desk.until_over()
    for reply in desk.replies:
        for call in reply.tool_calls:
            assert json.loads(json.dumps(call.arguments)) == call.arguments


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_the_target_decides_the_language(target: str) -> None:
    desk = Desk(diagonal_product(target=target))
    desk.until("compile.sh")
    suffix = "cu" if target == "cuda" else "cpp"
    assert f"kernels/diagonal_product.{suffix}" in desk.files


@pytest.mark.parametrize(
    ("target", "certain", "floor_ms", "tried"),
    [
        ("cuda", True, 1.99, 1),
        ("cuda", True, 1.5, 3),
        ("cuda", False, 1.99, 3),
        ("cpu", True, 1.99, 3),
    ],
)
def test_a_kernel_at_the_floor_is_the_last_one_it_tries(
    target: str, certain: bool, floor_ms: float, tried: int
) -> None:
    floor = {"floor": {"bytes_ms": floor_ms, "certain": certain}}
    desk = Desk(diagonal_product())
    seen: set[str] = set()

    def profile(desk: Desk, _command: str) -> str:
        seen.add(desk.variant)
        return json.dumps({**json.loads(profiled(2.0)), "target": target, "performance": floor})

    desk.answers["utils.profiling"] = profile
    desk.until_over()
    assert len(seen) == tried
    desk.messages.append(Message("user", "not there yet"))
    said = desk.until_over().gave_up or ""
    assert ("as fast as the device can" in said) == (tried == 1)
