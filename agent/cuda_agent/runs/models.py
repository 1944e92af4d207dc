"""From a model's name to the model; each is imported only when it is asked for."""

from pathlib import Path

from cuda_agent.config import check_model_name
from cuda_agent.llm.model import Model


def make(name: str, *, replies: int = 0) -> Model:
    """Return the model of this name; `replies` is how many it gave in the run already.

    Raises:
        ConfigError: there is none, or its file cannot be read.
    """
    check_model_name(name)
    if name.startswith("scripted:"):
        from cuda_agent.llm.scripted import from_file  # only when asked for

        return from_file(Path(name.removeprefix("scripted:")), replies=replies)
    from cuda_agent.llm.builtin.policy import BuiltinModel  # only when asked for

    return BuiltinModel()
