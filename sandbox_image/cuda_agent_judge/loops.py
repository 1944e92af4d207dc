"""The loops of the two workers: an order in, an answer out."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import torch

from cuda_agent_judge.candidate import Candidate, fault_of
from cuda_agent_judge.cudart import CudaFault, Cudart
from cuda_agent_judge.defences import ALL, Defences
from cuda_agent_judge.isolation import Identity, be_seen, drop_to, gain_nothing, move_into
from cuda_agent_judge.memory import is_out_of_memory
from cuda_agent_judge.operator import OperatorFault
from cuda_agent_judge.protocol import Channel, Kind, PeerLost
from cuda_agent_judge.reference import Reference
from cuda_agent_judge.session import Session

_NO_ROOM = (
    "the GPU has too little memory for the reference beside the submission; give the operator smaller inputs "
    "or a GPU with more memory"
)


def serve_reference(session: Session, defences: Defences = ALL, *, alone: bool = False) -> Callable[[Channel], None]:
    """The loop of a reference worker that serves one judgement, `alone` where there is no submission in it."""

    def serve(channel: Channel) -> None:
        answer_judge(Reference(session, defences, alone=alone), channel)

    return serve


def answer_judge(reference: Reference, channel: Channel) -> bool:
    """Answer until the judge closes its end; returns whether every answer was one."""
    sound = True

    def tell(name: str, at: float) -> None:
        channel.send(Kind.STEP, {"name": name, "at": at})

    with reference.steps.told(tell), contextlib.suppress(PeerLost):
        while True:
            frame = channel.receive()
            try:
                answer = reference.handle(frame.kind, frame.body)
            except OperatorFault as error:
                sound = False
                channel.send(Kind.FAULT, {"sentence": str(error)})
                continue
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                # Nothing is said against the submission: the reference and its comparison need the room.
                sound = False
                channel.send(Kind.FAULT, {"sentence": _NO_ROOM})
                continue
            fds, reference.fds = reference.fds, ()
            channel.send(Kind.ANSWER, answer, fds)
            for fd in fds:
                os.close(fd)
    return sound


def serve_candidate(
    identity: Identity | None, scratch: Path, defences: Defences = ALL, *, on_gpu: bool
) -> Callable[[Channel], None]:
    """The candidate worker's loop, under a uid of its own where there is one; it may write to `scratch`.

    With `on_gpu` it comes up on the GPU at once, while kernels are built.
    """

    def serve(channel: Channel) -> None:
        gain_nothing()
        if identity is not None:
            drop_to(identity)
        be_seen()
        move_into(scratch)
        os.chdir("/")
        torch.manual_seed(int.from_bytes(os.urandom(8), "big") >> 1)
        if on_gpu:
            torch.cuda.init()  # type: ignore[no-untyped-call]
            Cudart().synchronize()
        candidate = Candidate(defences)
        receive, send = channel.receive, channel.send
        if on_gpu:
            with contextlib.suppress(Exception):  # said when it is set up
                torch.cuda.synchronize()
        frame = receive()
        try:
            send(Kind.ANSWER, candidate.setup(frame.body, frame.fds))
        except CudaFault as error:
            send(Kind.FAULT, {"sentence": str(error)})
            return
        with contextlib.suppress(PeerLost):
            while True:
                frame = receive()
                try:
                    answer = candidate.handle(frame.kind, frame.body)
                except BaseException as error:
                    send(Kind.FAULT, fault_of(error))
                    continue
                send(Kind.ANSWER, answer)

    return serve
