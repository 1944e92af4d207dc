"""Becomes another program that ends when the one that started it does, even by kill -9.

    python -I -S leash.py PARENT COMMAND ...

Standard library only: it is started as a file, once a run. The kernel sends SIGTERM when the thread that started this
process ends; a run then ends in order, and whoever goes on finds its folder free.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Tie this process to its parent and become the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(143)  # it was gone already
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)  # a batch under nohup or in the background ignores some
    # Ray's workers block SIGINT, and what they start would never hear it.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
