"""What is slow happens beside the run: the SDK is imported while the sandbox starts, and a request can be cancelled."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import cache
from typing import Any

_LOOK_UP_S = 0.5


class Background[T]:
    """Builds a `T` in a thread of its own; afterwards runs coroutines on it, each with a deadline."""

    def __init__(self, build: Callable[[], T]) -> None:
        self._build = build
        self._built: Future[T] = Future()
        # A daemon: neither the import nor a request that nobody waits for holds up the end of the program.
        threading.Thread(target=self._start, name="model's start", daemon=True).start()

    def ready(self, timeout_s: float | None = None) -> T:
        """Wait until the `T` is built, and return it.

        Raises:
            TimeoutError: it took longer.
            Exception: what the building raised.
        """
        return self._built.result(timeout_s)

    def run[R](
        self, work: Callable[[T], Coroutine[Any, Any, R]], *, timeout_s: float, time_left: Callable[[], float]
    ) -> R:
        """Wait for a coroutine on what was built; when the time is up or the wait is interrupted it is cancelled.

        `time_left` is asked again and again: a run that must end at once says so there.

        Raises:
            TimeoutError: it took longer.
        """
        future = asyncio.run_coroutine_threadsafe(_limited(work(self.ready()), timeout_s), _loop())
        try:
            while True:
                try:
                    return future.result(_LOOK_UP_S)
                except TimeoutError:
                    if future.done():
                        return future.result()  # it ended just now, or the TimeoutError is its own
                    if time_left() <= 0:
                        raise
        except BaseException:
            future.cancel()
            raise

    def _start(self) -> None:
        try:
            self._built.set_result(self._build())
        except BaseException as error:  # whatever it is, the one who waits must hear of it
            self._built.set_exception(error)


async def _limited[R](work: Coroutine[Any, Any, R], timeout_s: float) -> R:
    async with asyncio.timeout(timeout_s):
        return await work


_starting = threading.Lock()


def _loop() -> asyncio.AbstractEventLoop:
    with _starting:
        return _only_loop()


@cache
def _only_loop() -> asyncio.AbstractEventLoop:
    """Start the loop of this process. It is one for all models because litellm's clients and workers belong to one."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="requests to models", daemon=True).start()
    return loop
