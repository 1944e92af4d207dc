"""What Docker says when it fails, and what a person can do about it: one table, tried from the top."""

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass

from cuda_agent_tools.sandbox import SandboxError

INSTEAD = "or run with --sandbox local"


@dataclass(frozen=True)
class Failure:
    """A kind of failure."""

    name: str
    said: str
    """A pattern for the daemon's, the client library's or the operating system's text."""
    meaning: str
    """One sentence without its full stop; {host} is the daemon's address."""
    remedy: str
    """The command that mends it, or what to do."""


FAILURES = (
    Failure(
        "no permission",
        r"permission ?denied.*(sock|connect|dial)|errno 13|PermissionError",
        "This user may not use Docker's socket {host}",
        "run `sudo usermod -aG docker $USER` and log in again",
    ),
    Failure(
        "bad address",
        r"invalid bind address|invalid (host|proto|url)|bad format|Unsupported (scheme|protocol)|Invalid URL"
        r"|not supported URL scheme|Failed to parse|ssh|paramiko|invalid path specified"
        r"|(Name or service|nodename).*not known|Temporary failure in name resolution",
        "The Docker address {host} cannot be used",
        "correct or unset $DOCKER_HOST, or pick a context with `docker context use default`",
    ),
    Failure(
        "no daemon",
        r"Connection refused|No such file or directory.*|errno (2|111)|FileNotFoundError|ConnectionRefused"
        r"|Is the docker daemon running",
        "No Docker daemon answers at {host}",
        "start it with `sudo systemctl start docker`",
    ),
    Failure(
        "no answer",
        r"timed? ?out|No route to host|Network is unreachable|Connection aborted|Connection reset|Remote end closed"
        r"|Max retries",
        "The Docker daemon at {host} does not answer",
        "see `sudo systemctl status docker`, and whether $DOCKER_HOST is right",
    ),
    Failure(
        "certificates",
        r"certificate|TLS|SSL",
        "Docker's certificates for {host} do not fit",
        "check $DOCKER_CERT_PATH and $DOCKER_TLS_VERIFY",
    ),
    Failure(
        "old client library",
        r"client version .* is too old|minimum supported API version|client is newer than server"
        r"|API version .*(least|too)",
        "The Docker daemon and the Python package 'docker' do not understand each other",
        "run `pip install --upgrade docker`, and update Docker where it is older than 20.10",
    ),
    Failure(
        "no NVIDIA toolkit",
        r"could not select device driver",
        "Docker cannot hand a GPU to a container: the NVIDIA Container Toolkit is missing or not registered"
        " (Docker from snap cannot use it)",
        "install nvidia-container-toolkit, then `sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl"
        " restart docker`",
    ),
    Failure(
        "rootless cgroups",
        r"bpf_prog_query\(BPF_CGROUP_DEVICE\)|failed to (get|query) device cgroup|cgroup.*nvidia-container-cli"
        r"|nvidia-container-cli.*cgroup",
        "The NVIDIA toolkit may not change device cgroups here (rootless Docker)",
        "set no-cgroups with `sudo nvidia-ctk config --set nvidia-container-cli.no-cgroups=true --in-place` and restart"
        " Docker",
    ),
    Failure(
        "CDI",
        r"CDI|unresolvable",
        "Docker finds no CDI description of the GPU",
        "make one with `sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`",
    ),
    Failure(
        "unknown GPU",
        r"unknown device|device error|No devices were found|invalid device",
        "Docker's NVIDIA toolkit does not know the GPU that was asked for",
        "compare `nvidia-smi -L` with $CUDA_VISIBLE_DEVICES",
    ),
    Failure(
        "no driver",
        r"nvml error|driver not loaded|libnvidia-ml|libcuda\.so|driver.*not.*running|nvidia-container-cli",
        "The NVIDIA driver does not work on the machine where Docker runs",
        "make `nvidia-smi` work there first",
    ),
    Failure(
        "disk full",
        r"no space left on device|disk quota exceeded",
        "The disk where Docker keeps its data is full",
        "free some space with `docker system prune`",
    ),
    Failure(
        "image missing",
        r"no such image|image .*not found|pull access denied|repository does not exist",
        "The sandbox's image is not there",
        "build it with `cuda-agent image build`",
    ),
    Failure(
        "no init",
        r"docker-init|init binary",
        "This Docker has no init program for containers",
        "install the package that brings docker-init (Debian, Ubuntu: `sudo apt install tini docker.io`)",
    ),
    Failure(
        "cgroups",
        r"cgroup",
        "Docker cannot make a control group for the container",
        "see `docker info` for the cgroup driver and version, and restart Docker",
    ),
    Failure(
        "runtime",
        r"unknown (or invalid )?runtime|runc did not terminate|OCI runtime create failed|failed to create (shim|task)",
        "Docker could not start a container",
        "see whether `docker run --rm --entrypoint true IMAGE` works with any image",
    ),
)


def recognise(text: str) -> Failure | None:
    """Return the kind of failure that a text speaks of."""
    return next((one for one in FAILURES if re.search(one.said, text, re.IGNORECASE | re.DOTALL)), None)


def explained(error: BaseException, host: str, *, find: Callable[[str], str | None] = shutil.which) -> SandboxError:
    """Return one sentence for a failure of Docker; `find` looks for programs."""
    text = " ".join(_texts(error))
    failure = recognise(text)
    if failure is None:
        return SandboxError(f"Docker at {host} failed: {_short(text)}; mend that, {INSTEAD}.")
    if failure.name == "no daemon" and host.startswith("unix://") and not (find("docker") or find("dockerd")):
        return SandboxError(f"Docker is not installed here (no program and no socket {host}): install it, {INSTEAD}.")
    said = "" if failure.name in ("no permission", "no daemon", "image missing") else f" ({_short(text)})"
    return SandboxError(f"{failure.meaning.format(host=host)}{said}: {failure.remedy}, {INSTEAD}.")


def _texts(error: BaseException | None) -> list[str]:
    """An error's own words, then those of its causes: the client library wraps the telling one several times."""
    found: list[str] = []
    while error is not None and len(found) < 10:
        found.append(f"{getattr(error, 'explanation', None) or error}")
        error = error.__cause__ or error.__context__
    return list(dict.fromkeys(found))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else f"{line[:200]}..."
