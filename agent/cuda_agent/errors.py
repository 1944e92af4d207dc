"""What can stop the program, and its exit code.

    CudaAgentError
    ├── UsageError (2)            the person must change something
    │   ├── ConfigError           a flag, a setting, a path
    │   └── OperatorError         the operator's file cannot be used
    └── InfrastructureError (3)   the machinery failed
        ├── ModelError            the model's provider, after our retries
        │   └── ContextOverflow   the conversation is longer than the model takes
        └── JudgeError            the judge itself, not what it judged

`SandboxError` and `SandboxLost` live with the Sandbox protocol (`cuda_agent_tools.sandbox`) and exit with 3 too.
Each message is one clear sentence that says what to do.
"""


class CudaAgentError(Exception):
    """The root; the message is shown to the person without a traceback."""

    exit_code = 3
    kind = "machinery"
    """One word for programs that read `--json`."""


class UsageError(CudaAgentError):
    """The person must change something."""

    exit_code = 2
    kind = "usage"


class ConfigError(UsageError):
    """A flag, a setting or a path is wrong."""

    kind = "config"


class OperatorError(UsageError):
    """The operator's file cannot be used."""

    kind = "operator"


class InfrastructureError(CudaAgentError):
    """The machinery failed."""


class ModelError(InfrastructureError):
    """The model's provider failed, after our retries."""

    def __init__(self, message: str, kind: str = "model") -> None:
        """`kind` is one word on what failed, where that is known: authentication, quota, ..."""
        super().__init__(message)
        self.kind = kind


class ContextOverflow(ModelError):
    """The conversation is longer than the model takes; a shorter one may be answered."""


class JudgeError(InfrastructureError):
    """The judge itself failed; nothing is said about the submission."""
