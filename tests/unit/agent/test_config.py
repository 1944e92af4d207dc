from pathlib import Path

import pytest

from cuda_agent.config import key_hint, resolve, settings_file
from cuda_agent.errors import ConfigError

OPERATOR = {"operator": Path("model.py")}


def environ(tmp_path: Path, text: str | None = None, **more: str) -> dict[str, str]:
    values = {"XDG_CONFIG_HOME": str(tmp_path), **more}
    if text is not None:
        file = settings_file(values)
        file.parent.mkdir(parents=True)
        file.write_text(text)
    return values


def test_a_flag_goes_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    env = environ(
        tmp_path, 'model = "scripted:a.json"\nmax_turns = 7\npolish = 1\n', CUDA_AGENT_MODEL="scripted:b.json"
    )
    settings = resolve({**OPERATOR, "polish": 2, "target": None}, env)
    assert (settings.model, settings.max_turns, settings.polish, settings.target) == ("scripted:b.json", 7, 2, "auto")


def test_the_file_has_the_names_of_the_flags(tmp_path: Path) -> None:
    assert resolve(OPERATOR, environ(tmp_path, "time_limit = 60\n")).time_limit_s == 60


def test_the_model_is_builtin_unless_named(tmp_path: Path) -> None:
    assert resolve(OPERATOR, environ(tmp_path)).model == "builtin"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("turns = 3\n", ["unknown key 'turns'", "settings.toml"]),
        ('run_dir = "x"\n', ["unknown key 'run_dir'"]),
        ("max_turns = 0\n", ["'max_turns'", "0"]),
        ("time_limit = -1\n", ["'time_limit'", "-1", "--time-limit or"]),
        ('target = "gpu"\n', ["'target'", "'gpu'", "cuda"]),
        ("max_turns = \n", ["settings.toml", "cannot be read"]),
        ('model = "two words"\n', ["'two words'", "builtin", "--api-base"]),
        ('model = ""\n', ["''", "builtin"]),
        ('reasoning_effort = "Very High"\n', ["reasoning-effort"]),
    ],
)
def test_a_wrong_settings_file_is_one_sentence(tmp_path: Path, text: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(OPERATOR, environ(tmp_path, text))
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_key_in_the_environment_is_spoken_of_only_while_builtin_runs() -> None:
    env = {"OPENAI_API_KEY": "secret-value"}
    hint = key_hint("builtin", env)
    assert "OPENAI_API_KEY" in hint
    assert "--model" in hint
    assert "secret-value" not in hint
    assert key_hint("scripted:x", env) == ""
    assert key_hint("builtin", {}) == ""
