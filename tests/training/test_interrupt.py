"""Ctrl-C as a request."""

import signal
import threading

import pytest

from wgfinn.training import graceful_interrupt


def press_twice():
    with graceful_interrupt() as asked:
        signal.raise_signal(signal.SIGINT)
        assert asked()
        signal.raise_signal(signal.SIGINT)


def test_first_asks_second_raises():
    before = signal.getsignal(signal.SIGINT)
    with graceful_interrupt() as asked:
        assert not asked()
        signal.raise_signal(signal.SIGINT)
        assert asked()
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(KeyboardInterrupt):
        press_twice()
    assert signal.getsignal(signal.SIGINT) is before


def test_changes_nothing_outside_the_main_thread():
    before, seen = signal.getsignal(signal.SIGINT), []

    def work():
        with graceful_interrupt() as asked:
            seen.append((asked(), signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(False, before)]
