"""What all tests of the host need."""

import os
import signal

import pytest

from cuda_agent.llm.openhands.keys import holds_secret

os.environ["CUDA_AGENT_CACHE"] = "none"  # what a test judges is compiled in it, and nothing is left in a home
for _name in [name for name, value in os.environ.items() if holds_secret({name: value})]:
    del os.environ[_name]  # no test needs the tester's keys, and the program hides a process that holds some


@pytest.fixture(scope="session", autouse=True)
def _signals_as_in_a_terminal() -> None:
    """A process that was started in the background or by nohup ignores some signals, and so would all its children."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL),
                            (signal.SIGHUP, signal.SIG_DFL)):  # fmt: skip
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
