"""From what a person typed to what a batch needs; whatever every run would refuse is refused here, before the first."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from cuda_agent.batch.conduct import Means
from cuda_agent.batch.jobs import first_of
from cuda_agent.batch.listing import Listing, Selection, find
from cuda_agent.batch.local import LocalEngine
from cuda_agent.batch.order import Order
from cuda_agent.batch.placing import Engine
from cuda_agent.batch.provenance import source_of
from cuda_agent.batch.resources import chosen_gpus, default_workers, no_room
from cuda_agent.batch.running import Halt, Patience
from cuda_agent.config import Settings, resolve
from cuda_agent.errors import ConfigError
from cuda_agent.runs import models
from cuda_agent.runs.place import Place, choose
from cuda_agent.runs.signals import Signals

_MOST_NAMED = 3


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster to spread over, instead of this machine alone."""

    address: str | None
    """None: the one that runs here."""
    folder: Path
    """Of the batch."""


@dataclass(frozen=True)
class Wish:
    """What a person typed."""

    source: Path
    selection: Selection
    models: tuple[str, ...]
    flags: Mapping[str, Any]
    """Settings of each run, by name."""
    rerun: tuple[str, ...] = ()
    provenance: str | None = None
    workers: int | None = None
    gpus: str | None = None
    cluster: Cluster | None = None


@dataclass(frozen=True)
class Ready:
    """What can be begun."""

    order: Order
    engine: Engine
    choices: tuple[str, ...]
    """A line for the person on each thing that was chosen for them."""


def default_folder(source: Path) -> Path:
    """Return runs/batch-<name>: the same for the same operators, so that the same command goes on."""
    name = str(source).removeprefix("@")
    return Path("runs") / f"batch-{Path(name).resolve().stem or 'operators'}"


def prepare(wish: Wish, environ: Mapping[str, str]) -> Ready:
    """List the operators, and see that models, sandbox, target and GPUs are there.

    Raises:
        ConfigError: one of them is not.
        SandboxError: `docker` was asked for and no daemon can be used.
    """
    listing = find(wish.source, wish.selection)
    settings = resolve({**wish.flags, "operator": wish.source}, environ)
    names = tuple(dict.fromkeys(wish.models or (settings.model,)))
    for name in names:
        models.check(settings.model_copy(update={"model": name}), environ)
    source = source_of(listing, wish.provenance)
    settled, engine, choices = _spread(wish, settings) if wish.cluster else _here(wish, settings, environ)
    order = Order(listing, names, settled, source, wish.rerun)
    return Ready(order, engine, (*_left_out(listing), *choices, f"operators: {source}"))


def _here(wish: Wish, settings: Settings, environ: Mapping[str, str]) -> tuple[Settings, Engine, tuple[str, ...]]:
    place = choose(settings)
    gpus = _gpus(wish, place, environ)
    workers = wish.workers or default_workers(len(gpus), cuda=place.target == "cuda")
    rate = f"{workers} runs at once" + (f" on {len(gpus)} GPUs" if gpus else "")
    return pinned(settings, place), LocalEngine(workers, gpus), (*place.choices, rate)


def _spread(wish: Wish, settings: Settings) -> tuple[Settings, Engine, tuple[str, ...]]:
    """What is chosen is chosen by what the cluster has; each of its machines has a sandbox of its own."""
    if wish.gpus:
        raise ConfigError("--gpus is for this machine's; Ray spreads runs over all GPUs of its cluster: leave it out.")
    from cuda_agent.batch.ray_engine import RayEngine  # an optional extra

    assert wish.cluster is not None
    cuda = None if settings.target == "auto" else settings.target == "cuda"
    engine = RayEngine.connect(wish.cluster.address, wish.workers, cuda=cuda, folder=wish.cluster.folder)
    target: Literal["cpu", "cuda"] = "cuda" if engine.cuda else "cpu"
    said = engine.described
    rate = f"{said['workers']} runs at once on {said['machines']} machines with {said['gpus']} GPUs; target {target}"
    return settings.model_copy(update={"target": target}), engine, (rate,)


def pinned(settings: Settings, place: Place) -> Settings:
    """Return the settings with what was chosen for the first run: no later one may choose otherwise."""
    update: dict[str, Any] = {"sandbox": place.kind, "target": place.target}
    if place.kind == "local":
        update["python"] = Path(place.python).absolute()
    return settings.model_copy(update=update)


def means(ready: Ready, folder: Path, signals: Signals, *, retries: int, hang_after_s: float) -> Means:
    """Return what the runs are made with; signals are noted from now on, and end them in order or at once."""
    return Means(
        settings=ready.order.settings,
        retries=retries,
        patience=Patience(quiet_s=hang_after_s),
        stopping=halt_by(signals),
        no_room=partial(no_room, folder),
    )


def halt_by(signals: Signals) -> Callable[[], Halt]:
    """Return how signals ask the runs to end: the first Ctrl-C in order, a second one and SIGTERM at once."""
    signals.instead = lambda: None

    def stopping() -> Halt:
        if not signals.received:
            return Halt.NO
        return Halt.AT_ONCE if signals.must_leave else Halt.IN_ORDER

    return stopping


def _gpus(wish: Wish, place: Place, environ: Mapping[str, str]) -> list[str]:
    if place.target != "cuda":
        if wish.gpus:
            raise ConfigError(f"--gpus {wish.gpus!r} is of no use on the target {place.target}; leave it out.")
        return []
    return chosen_gpus(wish.gpus, environ)


def _left_out(listing: Listing) -> list[str]:
    left = listing.left_out
    if not left:
        return []
    return [f"left out, for they hold no operator: {first_of(left, _MOST_NAMED)}"]
