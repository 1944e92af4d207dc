"""Containers whose program is gone: removed at the next start and by `cuda-agent doctor --clean`."""

from contextlib import suppress

from cuda_agent.sandbox.docker.engine import ERRORS, Engine
from cuda_agent.sandbox.docker.owner import OWNED, is_orphan


def find(engine: Engine) -> list[str]:
    """Return the names of containers whose owner on this machine is dead, those that never started included.

    Raises:
        SandboxError: the daemon does not say.
    """
    try:
        listed = engine.api.containers(all=True, filters={"label": OWNED})
    except ERRORS as error:
        raise engine.explained(error) from error
    return [one["Names"][0].lstrip("/") for one in listed if is_orphan(one.get("Labels") or {}) and one.get("Names")]


def remove(engine: Engine) -> list[str]:
    """Remove them and return their names; one that another program removes meanwhile is none of ours.

    Raises:
        SandboxError: the daemon does not say which there are.
    """
    names = find(engine)
    for name in names:
        with suppress(*ERRORS):
            engine.api.remove_container(name, force=True, v=True)
    return names
