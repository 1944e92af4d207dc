"""The threads of a worker that is woken for one call have a core each.

SIGCONT wakes all threads of a process at once, and a call wakes those that it computes with. The kernel often puts them
in line on one core, most of all on a virtual machine, where a core that rests counts as taken: there they wait 1 to 3
ms for each other, longer than many a call takes, and which side that befalls is no accident.
"""

import contextlib
import os

from cuda_agent_judge.process_tree import fields_of, threads_of

Masks = dict[int, set[int]]
"""On which cores each thread may run; 0 is the caller."""


def spread(pid: int) -> Masks:
    """Bind all threads but the main one to cores that this one did not run on last, and the caller with them.

    The main thread is not bound: those that it starts would be so too. With nobody else on its core it stays there.
    Returns what all were allowed, for `restore`.
    """
    masks, own = allowed(pid), _last_core(pid)
    beside = sorted(thread for thread in masks if thread != pid)
    for place, thread in enumerate(beside):
        if others := sorted(masks[thread] - {own}):
            _bind(thread, {others[place % len(others)]})
    mine = os.sched_getaffinity(0)
    if mine - {own}:
        _bind(0, mine - {own})
    return masks | {0: mine}


def restore(pid: int, masks: Masks) -> None:
    """Let each thread run where it was allowed to; one that a bound thread started meanwhile, where the main may."""
    for thread, mask in masks.items():
        _bind(thread, mask)
    for thread, mask in allowed(pid).items():
        if thread not in masks and len(mask) == 1 and pid in masks:
            _bind(thread, masks[pid])


def allowed(pid: int) -> Masks:
    """Where each thread of a process may run; nothing for threads that are gone or not to be asked."""
    masks: Masks = {}
    for thread in threads_of(pid):
        with contextlib.suppress(OSError):
            masks[thread] = os.sched_getaffinity(thread)
    return masks


def _last_core(pid: int) -> int:
    """The core on which the main thread ran last; -1 where that is not told."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(fields_of(pid)[36])
    return -1


def _bind(thread: int, mask: set[int]) -> None:
    # A thread may be gone, and a judge in another user's container may not be allowed to.
    with contextlib.suppress(OSError):
        os.sched_setaffinity(thread, mask)
