"""A thread with an event loop: it imports what is heavy while the run starts; a request in it can be cancelled."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any


class Background[T]:
    """Builds a `T` in a thread of its own and runs coroutines on it there."""

    def __init__(self, build: Callable[[], T]) -> None:
        self._build = build
        self._ready: Future[tuple[T, asyncio.AbstractEventLoop]] = Future()
        # A daemon: neither the import nor a request that nobody waits for holds up the end of the program.
        self._thread = threading.Thread(target=self._serve, name="model", daemon=True)
        self._thread.start()

    def run[R](self, work: Callable[[T], Coroutine[Any, Any, R]], *, timeout_s: float) -> R:
        """Wait for a coroutine; when the time is up or the wait is interrupted it is cancelled.

        Raises:
            TimeoutError: it took longer.
        """
        built, loop = self.ready(timeout_s)
        future = asyncio.run_coroutine_threadsafe(_limited(work(built), timeout_s), loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def ready(self, timeout_s: float | None = None) -> tuple[T, asyncio.AbstractEventLoop]:
        """Wait until the `T` is built.

        Raises:
            TimeoutError: it took longer.
        """
        return self._ready.result(timeout_s)

    def _serve(self) -> None:
        try:
            built = self._build()
        except BaseException as error:  # whatever it is, the one who waits must hear of it
            self._ready.set_exception(error)
            return
        loop = asyncio.new_event_loop()
        self._ready.set_result((built, loop))
        loop.run_forever()


async def _limited[R](work: Coroutine[Any, Any, R], timeout_s: float) -> R:
    async with asyncio.timeout(timeout_s):
        return await work
