import os
import re
import subprocess
import sys
from collections.abc import Mapping

import pytest
from tests.e2e.program import SOURCES

from cuda_agent.errors import ConfigError
from cuda_agent.llm.openhands.keys import Redactor
from cuda_agent.llm.openhands.options import Options, resolve

KEYS = {"ANTHROPIC_API_KEY": "sk-ant-0123456789", "OPENAI_API_KEY": "sk-open-0123456789", "MINE": "sk-mine-0123456789"}
LOCAL = "http://127.0.0.1:8000/v1"


def chosen(name: str, environ: Mapping[str, str] = KEYS, *, base: str | None = None, env: str | None = None) -> Options:
    return resolve(name, environ, api_base=base, api_key_env=env)


@pytest.mark.parametrize(
    ("name", "base", "full"),
    [
        ("anthropic/some-new-claude", None, "anthropic/some-new-claude"),
        ("gpt-4o-mini", None, "openai/gpt-4o-mini"),
        ("ollama_chat/qwen3", None, "ollama_chat/qwen3"),
        ("Qwen/Qwen3-Coder", LOCAL, "openai/Qwen/Qwen3-Coder"),
        ("my-model", LOCAL, "openai/my-model"),
        ("hosted_vllm/Qwen/Qwen3", LOCAL, "hosted_vllm/Qwen/Qwen3"),
    ],
)
def test_a_name_gets_its_provider(name: str, base: str | None, full: str) -> None:
    assert chosen(name, base=base).model == full


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gpt-9000-unknown", ["'gpt-9000-unknown'", "--api-base", "builtin"]),
        ("antropic/claude", ["'antropic'", "did you mean 'anthropic'?"]),
        ("Qwen/Qwen3-Coder", ["'Qwen'", "--api-base"]),
        ("openai/", ["openai/"]),
        ("/", ["'/'"]),
    ],
)
def test_a_name_that_nobody_serves_is_one_sentence(name: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        chosen(name)
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_providers_usual_key_is_taken_or_asked_for() -> None:
    assert chosen("anthropic/x").key == KEYS["ANTHROPIC_API_KEY"]
    with pytest.raises(ConfigError, match=r"\$ANTHROPIC_API_KEY is not set"):
        chosen("anthropic/x", {"OPENAI_API_KEY": "sk-open-0123456789"})
    with pytest.raises(ConfigError, match=r"\$ANTHROPIC_API_KEY is not set"):
        chosen("anthropic/x", {"ANTHROPIC_API_KEY": " "})


def test_a_key_that_nobody_named_is_not_sent_to_a_server_that_somebody_named() -> None:
    for name in ("my-model", "anthropic/x", "hosted_vllm/x"):
        assert chosen(name, base=LOCAL).key not in KEYS.values()
    assert chosen("my-model", base=LOCAL, env="MINE").key == KEYS["MINE"]


@pytest.mark.parametrize("typed", ["sk-ant-typed-by-mistake", "abcdef0123456789abcdef0123456789", "UNSET_KEY"])
def test_a_key_typed_in_place_of_its_variable_is_not_repeated(typed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        chosen("anthropic/x", env=typed)
    assert (typed in str(caught.value)) is (typed == "UNSET_KEY")


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("127.0.0.1:8000", True),
        ("ftp://host/v1", True),
        ("http://", True),
        ("http://host:port/v1", True),
        ("https://user:sk-hidden@host/v1", False),
        ("https://host/v1?key=sk-hidden", False),
    ],
)
def test_an_address_that_cannot_be_is_one_sentence_and_its_secrets_are_not_repeated(address: str, shown: bool) -> None:
    with pytest.raises(ConfigError, match="--api-base") as caught:
        chosen("x", base=address)
    assert (address in str(caught.value)) is shown
    assert "sk-hidden" not in str(caught.value)


def test_what_is_printed_of_the_options_holds_no_key() -> None:
    assert not re.search(r"sk-\w+", repr(chosen("anthropic/x")))


def test_every_key_of_the_environment_is_taken_out_and_ordinary_words_stay() -> None:
    environ = {"X_API_KEY": "sk-first-123", "HF_TOKEN": "hf_second_456", "VLLM_API_KEY": "EMPTY", "HOME": "/home/me"}
    clean = Redactor("sk-first-123-longer", environ)
    text = "sk-first-123-longer sk-first-123 hf_second_456 EMPTY /home/me"
    assert clean.text(text) == "[key] [key] [key] EMPTY /home/me"
    assert clean.value({"a": ["x sk-first-123", 1, None]}) == {"a": ["x [key]", 1, None]}


ASK = """
import ctypes, sys
from pathlib import Path
from cuda_agent.config import Settings
from cuda_agent.runs.models import check
settings = Settings(operator=Path("op.py"), model=sys.argv[1], api_key_env=sys.argv[2] or None)
check(settings, {"MINE": "sk-mine-0123456789"})
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
"""
"""Prints whether the process that did this can be dumped (PR_GET_DUMPABLE)."""


@pytest.mark.parametrize(("model", "variable", "dumpable"), [("anthropic/x", "MINE", "0"), ("builtin", "", "1")])
def test_a_process_that_knows_a_key_is_closed_to_others_whatever_its_variable_is_called(
    model: str, variable: str, dumpable: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASK, model, variable],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": os.pathsep.join(SOURCES)},
    )
    assert done.stdout.split() == [dumpable], done.stderr
