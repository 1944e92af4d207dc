"""What a batch consists of: one operator for one model is a job."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cuda_agent.batch.listing import Found
from cuda_agent.errors import ConfigError

_MOST_CHARS = 80


@dataclass(frozen=True)
class Job:
    """One operator to be optimised by one model."""

    name: str
    """Of its run folder; no two jobs of a batch share one, whatever the file system thinks of capitals."""
    key: str
    """The operator's path, relative to where the operators are."""
    path: str
    """... and as it is found from here."""
    operator: str
    """The operator's name."""
    level: str
    """KernelBench's level, "" where there is none."""
    model: str
    sha256: str
    """Of the operator's files; of a file that is no operator, of its bytes; "" where there is no file."""

    @property
    def identity(self) -> tuple[str, str]:
        """What makes it the same job when the command is given again."""
        return self.key, self.model

    def as_json(self) -> dict[str, Any]:
        """Return its fields."""
        return asdict(self)


def jobs_of(document: Mapping[str, Any]) -> list[Job]:
    """Read the jobs of a batch.json.

    Raises:
        ConfigError: they are not as this version writes them.
    """
    try:
        return [Job(**fields) for fields in document["jobs"]]
    except (KeyError, TypeError) as error:
        raise ConfigError(f"The batch.json is not as this version writes it ({error}); restore it.") from error


def plan(found: Sequence[Found], models: Sequence[str], *, before: Iterable[Job] = ()) -> list[Job]:
    """Return a job for each operator and model, in the operators' order; a job of `before` keeps its name."""
    named = {job.identity: job.name for job in before}
    taken = {name.casefold() for name in named.values()}
    jobs = []
    for one in found:
        for model in models:
            name = named.get((one.key, model))
            if name is None:
                name = _free(_wishes(one, model if len(models) > 1 else ""), taken)
                taken.add(name.casefold())
            jobs.append(Job(name, one.key, str(one.path), one.name, one.level, model, one.sha256))
    return jobs


def _wishes(one: Found, model: str) -> list[str]:
    """Return the names that it may have, the shortest first."""
    tail = f"--{_slug(model)[:_MOST_CHARS]}" if model else ""
    folders = [_slug(part) for part in one.key.split("/")[:-1]]
    names = [_slug(one.name), "-".join([*folders[-1:], _slug(one.name)]), "-".join([*folders, _slug(one.name)])]
    return [name[:_MOST_CHARS] + tail for name in names]


def _free(wishes: Sequence[str], taken: set[str]) -> str:
    for wish in wishes:
        if wish.casefold() not in taken:
            return wish
    number = 2
    while f"{wishes[0]}-{number}".casefold() in taken:
        number += 1
    return f"{wishes[0]}-{number}"


def _slug(text: str) -> str:
    return re.sub(r"[^\w.-]+", "_", text).lstrip("._-").rstrip(".-") or "operator"


def first_of(names: Sequence[str], most: int) -> str:
    """List names for a sentence, so many at most, and say how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
