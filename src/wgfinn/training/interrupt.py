"""Ctrl-C as a request to stop at the next safe place."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def graceful_interrupt() -> Iterator[Callable[[], bool]]:
    """Inside, the first Ctrl-C only sets what the yielded function returns; a second one raises as usual.

    Python delivers signals to the main thread alone; elsewhere nothing changes.
    """
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def ask(signum, frame) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    previous = signal.signal(signal.SIGINT, ask)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, previous)
