"""Which device new arrays live on."""

import contextlib
from collections.abc import Iterator

import jax


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
