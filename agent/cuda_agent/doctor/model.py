"""Check of a model: its name, its key, and one tiny tool call, which an LLM's provider may charge for."""

import math
import time
from collections.abc import Callable, Mapping

from cuda_agent.doctor.check import Check, fine, problem
from cuda_agent.errors import ConfigError
from cuda_agent.llm.openhands.model import OpenHandsModel
from cuda_agent.llm.openhands.options import resolve
from cuda_agent.llm.probe import probe

NAME = "model"
PATIENCE_S = 90.0
"""For everything, the import of the client included: a person waits."""


def check(
    model: str,
    environ: Mapping[str, str],
    *,
    api_base: str | None = None,
    api_key_env: str | None = None,
    notify: Callable[[str], None] = lambda text: None,
) -> Check:
    """Ask an LLM for one tool call; `notify` hears what is waited for."""
    if model == "builtin" or model.startswith("scripted:"):
        return fine(NAME, f"{model} needs no key and no network")
    try:
        made = OpenHandsModel(resolve(model, environ, api_base=api_base, api_key_env=api_key_env), environ)
    except ConfigError as error:
        said, _, remedy = str(error).partition(": ")
        return problem(NAME, said, remedy or "name a model as litellm does")
    end = time.monotonic() + PATIENCE_S
    made.attach(time_left=lambda: max(0.0, end - time.monotonic()), notify=notify)
    answer = probe(made)
    if answer.works:
        cost = answer.usage.cost_usd
        price = "price unknown" if cost is None or math.isnan(cost) else f"${cost:.4f}"
        return fine(NAME, f"{answer.text.rstrip('.')}, {price}")
    said, _, remedy = answer.text.partition("; ")
    return problem(NAME, said, remedy or "see what the provider said")
