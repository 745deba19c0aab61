"""Which device new arrays live on, and how many threads its libraries take."""

import contextlib
from collections.abc import Iterator

import jax
from threadpoolctl import threadpool_limits


def platform() -> str:
    """The kind of device that new arrays live on: "cpu", "gpu", ..."""
    chosen = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    return jax.default_backend() if chosen is None else getattr(chosen, "platform", chosen)


@contextlib.contextmanager
def on_cpu() -> Iterator[None]:
    """Inside, new arrays live on the processor: a rollout is hundreds of small steps one after the other,
    for which an accelerator is the slower machine."""
    with jax.default_device(jax.devices("cpu")[0]):
        yield


@contextlib.contextmanager
def one_lapack_thread() -> Iterator[None]:
    """Inside, factorisations of matrices (which jax leaves to scipy's LAPACK) keep to the thread that asks for them.

    Members are trained in threads of their own already, and those of LAPACK wait for work by spinning: on busy cores a
    Gauss-Newton step took ten times as long with them.
    """
    with threadpool_limits(limits=1, user_api="blas"):
        yield
