"""Shared set-up: double precision, strict rank promotion, seeded keys, compiled programs kept on disk."""

import os
from pathlib import Path

# Most of the time goes to compiling small programs, the same ones in many tests, in both workers and in the commands
# that tests start: they share what they compile.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")

import jax
import pytest

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def key() -> jax.Array:
    return jax.random.key(0)


_MAPS = Path("/proc/self/maps")
_MANY_MAPS = 30_000
_tests_run = 0


@pytest.fixture(autouse=True)
def few_programs():
    """Each compiled program holds memory maps, of which Linux grants a process 65,530: beyond them the compiler
    crashes. Looked at from time to time, because long lists of maps take a while to read."""
    global _tests_run
    _tests_run += 1
    if _tests_run % 20 == 0 and _MAPS.exists() and _MAPS.read_bytes().count(b"\n") > _MANY_MAPS:
        jax.clear_caches()
