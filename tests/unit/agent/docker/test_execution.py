"""The bytes of a `docker exec`: frames of two streams, and the last line that tells how the command ended."""

import socket
import struct
import threading
from collections.abc import Iterator, Sequence

import pytest

from cuda_agent.sandbox.command import Command
from cuda_agent.sandbox.docker.execution import Ending, Execution, StreamEnded

MARK = b"\0cuda-agent n0nce "


@pytest.mark.parametrize(
    ("pieces", "passed", "answer"),
    [
        ([b"out", MARK + b"exit 0\n"], b"out", "exit 0"),
        ([b"out" + MARK + b"exit 0\n"], b"out", "exit 0"),
        ([bytes([byte]) for byte in b"out" + MARK + b"exit 3;oom\n"], b"out", "exit 3;oom"),
        ([b"a\0", b"b"], b"a\0b", None),
        ([b"a\0cuda-agent other exit 0\n"], b"a\0cuda-agent other exit 0\n", None),
        ([b"\0cuda-", b"\0cuda-agent n0nce", b" exit 1\n"], b"\0cuda-", "exit 1"),
        ([MARK + b"exit", b" 7", b"\n"], b"", "exit 7"),
    ],
    ids=["a piece of its own", "with the output", "byte by byte", "no mark", "another nonce", "a false start", "split"],
)
def test_the_last_line_is_found_however_the_stream_is_cut(
    pieces: Sequence[bytes], passed: bytes, answer: str | None
) -> None:
    ending = Ending("n0nce")
    assert b"".join(ending.feed(piece) for piece in pieces) == passed
    assert ending.answer == answer


def test_output_is_let_through_at_once_unless_it_may_be_the_last_line() -> None:
    ending = Ending("n0nce")
    assert ending.feed(b"one\n") == b"one\n"
    assert ending.feed(b"two\0cuda") == b"two"
    assert ending.feed(b"three") == b"\0cudathree"


def frame(stream: int, data: bytes) -> bytes:
    return struct.pack(">BxxxL", stream, len(data)) + data


class Daemon:
    """The other side of the connection: reads the request and answers with what a test gives it."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()

    def request(self) -> bytes:
        head = b""
        while not head.endswith(b"\n"):
            head += self.theirs.recv(1)
        return head

    def answers(self, *pieces: bytes) -> threading.Thread:
        """Send the pieces, with the nonce of the request in the place of n0nce; then close."""

        def play() -> None:
            nonce = self.request().split()[0]
            for piece in pieces:
                self.theirs.sendall(piece.replace(b"n" * 32, nonce))
            self.theirs.shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=play)
        thread.start()
        return thread


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    made = Daemon()
    yield made
    made.ours.close()
    made.theirs.close()


def command(timeout_s: float = 30.0, max_bytes: int = 1000) -> Command:
    return Command(("true",), "/", {}, b"", timeout_s, max_bytes)


def end(stream: int, answer: bytes) -> bytes:
    return frame(stream, b"\0cuda-agent " + b"n" * 32 + b" " + answer + b"\n")


def test_frames_cut_anywhere_are_put_together(daemon: Daemon) -> None:
    output = frame(1, b"out") + frame(2, b"err") + frame(1, b"put")
    thread = daemon.answers(*(output[i : i + 1] for i in range(len(output))), end(2, b"exit 5") + end(1, b"exit 5"))
    result = Execution(command(), 0).run(daemon.ours, None)
    thread.join()
    assert (result.exit_code, result.stdout, result.stderr) == (5, b"output", b"err")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"exit 1;oom", b"memory is used up"),
        (b"timeout;pids", b"limit of processes"),
        (b"exit 1;full /tmp;full /workspace", b"/tmp is full: remove files there\nsandbox: /workspace is full"),
    ],
)
def test_limits_that_a_failed_command_met_are_named_on_stderr(daemon: Daemon, answer: bytes, words: bytes) -> None:
    thread = daemon.answers(frame(2, b"its own"), end(1, answer), end(2, answer))
    result = Execution(command(), 0).run(daemon.ours, None)
    thread.join()
    assert result.stderr.startswith(b"its own\nsandbox: ")
    assert words in result.stderr


def test_a_command_that_went_well_says_nothing_of_limits(daemon: Daemon) -> None:
    thread = daemon.answers(end(1, b"exit 0;full /tmp"), end(2, b"exit 0;full /tmp"))
    assert Execution(command(), 0).run(daemon.ours, None).stderr == b""
    thread.join()


def test_a_connection_that_ends_without_an_answer_is_told_from_an_end(daemon: Daemon) -> None:
    thread = daemon.answers(frame(1, b"half"))
    execution = Execution(command(), 0)
    with pytest.raises(StreamEnded):
        execution.run(daemon.ours, None)
    thread.join()
    lost = execution.lost(1.0)
    assert (lost.exit_code, lost.stdout) == (137, b"half")


def test_a_command_s_own_text_cannot_stand_for_its_end(daemon: Daemon) -> None:
    forged = frame(1, b"\0cuda-agent 00000000000000000000000000000000 exit 0\n")
    thread = daemon.answers(forged, end(1, b"exit 9"), end(2, b"exit 9"))
    result = Execution(command(), 0).run(daemon.ours, None)
    thread.join()
    assert result.exit_code == 9
    assert result.stdout.startswith(b"\0cuda-agent 000")


@pytest.mark.parametrize(
    ("answer", "kind"),
    [(b"errno 2 exec", FileNotFoundError), (b"errno 13 exec", PermissionError), (b"errno 20 cwd", NotADirectoryError)],
)
def test_what_could_not_be_started_is_raised(daemon: Daemon, answer: bytes, kind: type[OSError]) -> None:
    thread = daemon.answers(end(1, answer), end(2, answer))
    with pytest.raises(kind):
        Execution(command(), 0).run(daemon.ours, None)
    thread.join()
