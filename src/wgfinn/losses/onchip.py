r"""Shooting inside one kernel, for CUDA devices.

The scheme's stages follow one another: as single operations of an array library, a step of refinement is thousands of
tiny kernels, each waiting for the last. Here a program takes a block of windows from their first to their last sample
with all numbers on chip, and another one comes back with the derivatives (Pallas, in its Triton form).

Tensor products on chip want sizes that are powers of two, 16 or more; everything is padded with zeros, which a GENERIC
field does not notice: a state that enters nothing and is driven by nothing stays zero.
"""

import functools
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from wgfinn._device import platform
from wgfinn._types import Array, Field, Float
from wgfinn.models import (
    ACTIVATIONS,
    MLP,
    FrictionBracket,
    GenericField,
    NeuralPotential,
    PoissonBracket,
)

_SMALLEST = 16
# What the kernels are written for: states, rows of generators, neurons of a layer, and the kind of device.
_MOST_STATES = _MOST_ROWS = 16
_WIDEST = 32
_LEAST_CAPABILITY = 9.0
_SWITCH = "WGFINN_ONCHIP"
# Windows of a program, and the warps that share them.
_BLOCK = 16
_WARPS = 4
# Shu and Osher's scheme (`integrate.looped_step`): what stage i keeps of the sample's state.
_KEPT = (0.0, 3 / 4, 1 / 3)


class _Parts(NamedTuple):
    """A GENERIC field as the kernels read it: padded; both potentials' networks in one, both brackets' too, with zeros
    between them; generators skew, cores square."""

    potentials: tuple[tuple[Array, Array], ...]
    """Weights and biases up to the last activation."""
    slopes: Array
    """The last layers' weights: their biases move no state."""
    energy: Array
    """From the first layer's sums back to the states, for the energy's half; the first layer's weights again."""
    entropy: Array
    cores: tuple[tuple[Array, Array], ...]
    poisson: tuple[Array, Array]
    friction: tuple[Array, Array]
    poisson_generators: Array
    friction_generators: Array


def serves(field: Field) -> bool:
    """Whether the kernels know this kind of field and suit the device; `WGFINN_ONCHIP=0` in the environment switches
    them off."""
    return os.environ.get(_SWITCH) != "0" and knows(field) and _capability() >= _LEAST_CAPABILITY


def _capability() -> float:
    """Of the default device; 9.0 is NVIDIA's Hopper. Zero if it is no CUDA device."""
    return float(getattr(jax.devices()[0], "compute_capability", 0)) if platform() == "gpu" else 0.0


def knows(field: Field) -> bool:
    """Whether the field has the parts that the kernels are written for: all neural, small networks."""
    if not isinstance(field, GenericField):
        return False
    potentials, brackets = (field.energy_potential, field.entropy_potential), (field.reversible, field.irreversible)
    if not all(type(p) is NeuralPotential for p in potentials):
        return False
    if type(brackets[0]) is not PoissonBracket or type(brackets[1]) is not FrictionBracket:
        return False
    return len(brackets[0].generators) == len(brackets[1].generators) <= _MOST_ROWS and all(
        len(n.weights) > 1 and n.weights[0].shape[1] <= _MOST_STATES and len(n.weights[0]) <= _WIDEST
        for n in _networks(field)
    )


def _networks(field: Any) -> tuple[MLP, MLP, MLP, MLP]:
    potentials, brackets = (field.energy_potential, field.entropy_potential), (field.reversible, field.irreversible)
    return (*(p.network for p in potentials), *(b.core for b in brackets))


def shoot(
    field: Field,
    first: Float[Array, "state window"],
    steps: Float[Array, "step window"],
    limits: Float[Array, "2 state"],
    *,
    interpret: bool = False,
) -> Float[Array, "step state window"]:
    """The states after each step of each window, as `shooting.shoot` has them, without the first.

    `interpret`: on any device, operation by operation, for tests.
    """
    d, n_windows = first.shape
    parts = _parts(field)
    rows = parts.poisson_generators.shape[0] // _SMALLEST
    kernel = _Kernel(
        activation=_networks(field)[0].activation,
        rows=rows,
        block=_BLOCK,
        interpret=interpret,
    )
    total = -(-n_windows // kernel.block) * kernel.block
    padded = _pad(first, (_SMALLEST, total))
    # A state of padding is zero, within these.
    around = jnp.pad(limits, ((0, 0), (0, _SMALLEST - d)), constant_values=((0, 0), (0, 1))).at[0, d:].set(-1)
    later: Array = _shoot(kernel, parts, padded, _pad(steps, (len(steps), total)), around)  # pyright: ignore[reportAssignmentType]
    return jnp.moveaxis(later, 1, 0)[:, :d, :n_windows]


# --- padding ----------------------------------------------------------------------------------------------------------


def _pad(array: Array, shape: tuple[int, ...]) -> Array:
    return jnp.pad(array, [(0, n - m) for m, n in zip(array.shape, shape, strict=True)])


def _power(n: int, least: int = _SMALLEST) -> int:
    return max(least, 1 << (n - 1).bit_length())


def _parts(field: Any) -> _Parts:
    energy, entropy, poisson, friction = _networks(field)
    generators = [b.generators for b in (field.reversible, field.irreversible)]
    rows = _power(len(generators[0]), 4)
    back = [_pad(n.weights[0].T, (_SMALLEST, _power(len(n.weights[0])))) for n in (energy, entropy)]
    return _Parts(
        potentials=_side_by_side(energy, entropy),
        slopes=jnp.concatenate([_pad(n.weights[-1][0], (_power(n.weights[-1].shape[1]),)) for n in (energy, entropy)]),
        energy=jnp.concatenate([back[0], jnp.zeros_like(back[1])], axis=1),
        entropy=jnp.concatenate([jnp.zeros_like(back[0]), back[1]], axis=1),
        cores=_side_by_side(poisson, friction),
        poisson=_padded_core(poisson, rows, 0),
        friction=_padded_core(friction, rows, 1),
        poisson_generators=_padded_generators(generators[0], rows),
        friction_generators=_padded_generators(generators[1], rows),
    )


def _side_by_side(one: MLP, other: MLP) -> tuple[tuple[Array, Array], ...]:
    """Two networks of one shape as one, up to the last activation: the states enter both, then each keeps to itself."""
    layers = []
    for i in range(len(one.weights) - 1):
        weights = [
            _pad(n.weights[i], (_power(n.weights[i].shape[0]), _power(n.weights[i].shape[1]))) for n in (one, other)
        ]
        weight = jnp.concatenate(weights) if i == 0 else jax.scipy.linalg.block_diag(*weights)
        layers.append((weight, jnp.concatenate([_pad(n.biases[i], (_power(len(n.biases[i])),)) for n in (one, other)])))
    return tuple(layers)


def _padded_core(network: MLP, rows: int, place: int) -> tuple[Array, Array]:
    """The last layer of the network at `place` of two."""
    weight, bias = network.weights[-1], network.biases[-1]
    n = round(len(bias) ** 0.5)
    square = _pad(weight.reshape(n, n, -1), (rows, rows, _power(weight.shape[1]))).reshape(rows * rows, -1)
    both = [jnp.zeros_like(square), jnp.zeros_like(square)]
    both[place] = square
    return jnp.concatenate(both, axis=1), _pad(bias.reshape(n, n), (rows, rows)).reshape(-1)


def _padded_generators(generators: Array, rows: int) -> Array:
    upper = jnp.triu(generators, 1)
    skew = upper - jnp.swapaxes(upper, -1, -2)
    return _pad(skew, (rows, _SMALLEST, _SMALLEST)).reshape(rows * _SMALLEST, _SMALLEST)


# --- the field, as a block of windows sees it -------------------------------------------------------------------------


class _Kernel(NamedTuple):
    """What the compiler must know beside shapes."""

    activation: str
    rows: int
    block: int
    interpret: bool

    def velocity(self, parts: Any, x: Array) -> Array:
        """x' of padded states in columns."""
        potentials, cores = self._potentials(parts, x), self._cores(parts, x)
        reversible = _reversible(*self._poisson(parts, cores, potentials), potentials.of_energy)
        return reversible + _irreversible(*self._friction(parts, cores, potentials), potentials.of_entropy)

    def pull(self, parts: Any, x: Array, slope: Array, keep: Callable[[str, Array | None, Array], None]) -> Array:
        """The derivative by x of `velocity(x)` times `slope`. Products hand what entered them, and the derivative by
        their result, to `keep`: those by the weights need no more.

        Written out, with weights read again where they are needed: what an automatic derivative keeps alive meanwhile
        is several times what fits on chip.
        """
        potentials, cores = self._potentials(parts, x), self._cores(parts, x)
        rows, core = self._poisson(parts, cores, potentials)
        by_rows, by_core, by_energy = jax.vjp(_reversible, rows, core, potentials.of_energy)[1](slope)
        by_rows, by_core = _flat(by_rows), _flat(by_core)
        keep("poisson_generators", potentials.of_entropy, by_rows)
        keep("poisson", cores.last, by_core)
        by_entropy = self._product(parts.poisson_generators, by_rows, transposed=True)
        by_last = self._product(parts.poisson[0], by_core, transposed=True)

        rows, core = self._friction(parts, cores, potentials)
        by_rows, by_core, by_vector = jax.vjp(_irreversible, rows, core, potentials.of_entropy)[1](slope)
        by_rows, by_core, by_entropy = _flat(by_rows), _flat(by_core), by_entropy + by_vector
        keep("friction_generators", potentials.of_energy, by_rows)
        keep("friction", None, by_core)
        by_energy = by_energy + self._product(parts.friction_generators, by_rows, transposed=True)
        by_last = by_last + self._product(parts.friction[0], by_core, transposed=True)
        by_x = self._pull_cores(parts, cores, by_last, keep)
        return by_x + self._pull_potentials(parts, potentials, by_energy, by_entropy, keep)

    def _potentials(self, parts: Any, x: Array) -> "_Potentials":
        """Both gradients, by backpropagation through both networks at once."""
        sums, values = [], [x]
        for weight, bias in parts.potentials:
            sums.append(self._product(weight, values[-1]) + bias[...][:, None])
            values.append(self._activate(sums[-1]))
        reached = [jnp.broadcast_to(parts.slopes[...][:, None], sums[-1].shape)]
        sent = [self._times_slope(sums[-1], reached[0])]
        for i in range(len(sums) - 1, 0, -1):
            reached.insert(0, self._product(parts.potentials[i][0], sent[0], transposed=True))
            sent.insert(0, self._times_slope(sums[i - 1], reached[0]))
        of_energy, of_entropy = self._product(parts.energy, sent[0]), self._product(parts.entropy, sent[0])
        return _Potentials(sums, values, reached, sent, of_energy, of_entropy)

    def _pull_potentials(self, parts: Any, at: "_Potentials", by_energy: Array, by_entropy: Array, keep) -> Array:
        keep("energy", at.sent[0], by_energy)
        keep("entropy", None, by_entropy)
        by_sent = self._product(parts.energy, by_energy, transposed=True)
        by_sent = by_sent + self._product(parts.entropy, by_entropy, transposed=True)
        by_sums = []
        for i in range(len(at.sums)):
            by_sum, by_reached = jax.vjp(self._times_slope, at.sums[i], at.reached[i])[1](by_sent)
            by_sums.append(by_sum)
            if i + 1 < len(at.sums):
                keep(f"back{i + 1}", at.sent[i + 1], by_reached)
                by_sent = self._product(parts.potentials[i + 1][0], by_reached)
            else:
                keep("slopes", None, by_reached)
        by_value = None
        for i in range(len(at.sums) - 1, -1, -1):
            by_sum = by_sums[i] if by_value is None else by_sums[i] + self._times_slope(at.sums[i], by_value)
            keep(f"potentials{i}", None if i == 0 else at.values[i], by_sum)
            by_value = self._product(parts.potentials[i][0], by_sum, transposed=True)
        assert by_value is not None
        return by_value

    def _cores(self, parts: Any, x: Array) -> "_Cores":
        sums, values = [], [x]
        for weight, bias in parts.cores:
            sums.append(self._product(weight, values[-1]) + bias[...][:, None])
            values.append(self._activate(sums[-1]))
        return _Cores(sums, values)

    def _pull_cores(self, parts: Any, at: "_Cores", by_value: Array, keep) -> Array:
        for i in range(len(at.sums) - 1, -1, -1):
            by_sum = self._times_slope(at.sums[i], by_value)
            keep(f"cores{i}", None if i == 0 else at.values[i], by_sum)
            by_value = self._product(parts.cores[i][0], by_sum, transposed=True)
        return by_value

    def _poisson(self, parts: Any, cores: "_Cores", potentials: "_Potentials") -> tuple[Array, Array]:
        return self._bracket(parts.poisson_generators, potentials.of_entropy, parts.poisson, cores)

    def _friction(self, parts: Any, cores: "_Cores", potentials: "_Potentials") -> tuple[Array, Array]:
        return self._bracket(parts.friction_generators, potentials.of_energy, parts.friction, cores)

    def _bracket(self, generators: Any, annihilated: Array, last: Any, cores: "_Cores") -> tuple[Array, Array]:
        """The rows that annihilate, and the core between them."""
        rows = self._product(generators, annihilated).reshape(self.rows, _SMALLEST, -1)
        core = self._product(last[0], cores.last) + last[1][...][:, None]
        return rows, core.reshape(self.rows, self.rows, -1)

    def _activate(self, x: Array) -> Array:
        return ACTIVATIONS[self.activation](x)

    def _times_slope(self, x: Array, along: Array) -> Array:
        return jax.jvp(self._activate, (x,), (along,))[1]

    def _product(self, weight: Any, x: Array, *, transposed: bool = False) -> Array:
        # Three products of short numbers on the tensor cores are as exact as one in single precision, and faster.
        short = None if self.interpret or x.dtype != jnp.float32 else jax.lax.DotAlgorithmPreset.TF32_TF32_F32_X3
        contracted = (((0 if transposed else 1,), (0,)), ((), ()))
        return jax.lax.dot_general(weight[...], x, contracted, precision=short)


class _Potentials(NamedTuple):
    """Layer by layer: sums, what entered them, and on the way back what reached an activation and what it sent on."""

    sums: list[Array]
    values: list[Array]
    reached: list[Array]
    sent: list[Array]
    of_energy: Array
    of_entropy: Array


class _Cores(NamedTuple):
    sums: list[Array]
    values: list[Array]

    @property
    def last(self) -> Array:
        return self.values[-1]


def _reversible(rows: Array, core: Array, vector: Array) -> Array:
    along = (rows * vector[None]).sum(axis=1)
    turned = (core * along[None]).sum(axis=1) - (core * along[:, None]).sum(axis=0)
    return (rows * turned[:, None]).sum(axis=0)


def _irreversible(rows: Array, core: Array, vector: Array) -> Array:
    along = (rows * vector[None]).sum(axis=1)
    damped = (core * (core * along[:, None]).sum(axis=0)[None]).sum(axis=1)
    return (rows * damped[:, None]).sum(axis=0)


def _flat(array: Array) -> Array:
    return array.reshape(-1, array.shape[-1])


# --- there and back ---------------------------------------------------------------------------------------------------


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _shoot(kernel: _Kernel, parts: _Parts, first: Array, steps: Array, limits: Array) -> Array:
    return _remember(kernel, parts, first, steps, limits)[0]


def _remember(kernel: _Kernel, parts: _Parts, first: Array, steps: Array, limits: Array) -> tuple[Array, Any]:
    """The states after each step; the states at which the field was evaluated are remembered."""
    leaves, treedef = jax.tree.flatten(parts)

    def program(*refs):
        *of_parts, of_first, of_steps, of_limits, of_stages, of_later = refs
        parts = jax.tree.unflatten(treedef, of_parts)

        def advance(k, x):
            dt = of_steps[k, :]
            low, high = of_limits[0, :][:, None], of_limits[1, :][:, None]

            def mix(stage, u):
                of_stages[:, k, stage, :] = u
                kept = _kept(stage, x.dtype)
                moved = kept * x + (1 - kept) * (u + dt[None] * kernel.velocity(parts, u))
                return jnp.minimum(jnp.maximum(moved, low), high)

            moved = jax.lax.fori_loop(0, len(_KEPT), mix, x)
            x = jnp.where(_all_inside(x, low, high), moved, x)
            of_later[:, k, :] = x
            return x

        jax.lax.fori_loop(0, len(steps), advance, of_first[...])

    later = jax.ShapeDtypeStruct((len(first), len(steps), first.shape[1]), first.dtype)
    shapes = [_record(len(first), kernel, steps), later]
    stages, later = pl.pallas_call(
        program,
        grid=(first.shape[1] // kernel.block,),
        in_specs=[*map(_whole, leaves), _columns(first, kernel), _columns(steps, kernel), _whole(limits)],
        out_specs=[_columns(shape, kernel) for shape in shapes],
        out_shape=shapes,
        **_compilation(kernel),
    )(*leaves, first, steps, limits)
    return later, (parts, steps, limits, stages, later)


def _back(kernel: _Kernel, remembered: Any, cotangent: Array) -> tuple[_Parts, Array, Array, Array]:
    """Reverse through all steps.

    What enters each product and the derivative by its result go to memory; sums of their products over all stages and
    windows, which are the derivatives by the weights, are left to the library.
    """
    parts, steps, limits, stages, later = remembered
    leaves, treedef = jax.tree.flatten(parts)
    entered, results = _sizes(parts)
    records, record_def = jax.tree.flatten(
        (
            {n: _record(s, kernel, steps) for n, s in entered.items()},
            {n: _record(s, kernel, steps) for n, s in results.items()},
        )
    )

    def program(*refs):
        of_parts, others = refs[: len(leaves)], refs[len(leaves) :]
        of_stages, of_later, of_steps, of_cotangent, of_limits, of_first, *of_records = others
        parts = jax.tree.unflatten(treedef, of_parts)
        of_entered, of_slopes = jax.tree.unflatten(record_def, of_records)

        def retreat(i, towards):
            k = len(steps) - 1 - i
            dt = of_steps[k, :]
            low, high = of_limits[0, :][:, None], of_limits[1, :][:, None]

            def stage_back(j, carry):
                on_x, on_u, reached = carry
                stage = len(_KEPT) - 1 - j
                kept = _kept(stage, on_x.dtype)
                on_u = jnp.where(_inside(reached, low, high), on_u, 0)

                def keep(name: str, entering: Array | None, slope: Array) -> None:
                    of_slopes[name][:, k, stage, :] = slope
                    if entering is not None:
                        of_entered[name][:, k, stage, :] = entering

                u = of_stages[:, k, stage, :]
                through = kernel.pull(parts, u, (1 - kept) * dt[None] * on_u, keep)
                return on_x + kept * on_u, (1 - kept) * on_u + through, u

            towards = towards + of_cotangent[:, k, :]
            moving = _all_inside(of_stages[:, k, 0, :], low, high)
            start = (jnp.zeros_like(towards), jnp.where(moving, towards, 0), of_later[:, k, :])
            on_x, on_u, _ = jax.lax.fori_loop(0, len(_KEPT), stage_back, start)
            return on_x + on_u + jnp.where(moving, 0, towards)

        of_first[...] = jax.lax.fori_loop(0, len(steps), retreat, jnp.zeros(of_first.shape, of_first.dtype))

    first = jax.ShapeDtypeStruct((len(cotangent), cotangent.shape[2]), cotangent.dtype)
    on_first, *found = pl.pallas_call(
        program,
        grid=(first.shape[1] // kernel.block,),
        in_specs=[
            *map(_whole, leaves),
            *(_columns(a, kernel) for a in (stages, later, steps, cotangent)),
            _whole(limits),
        ],
        out_specs=[_columns(shape, kernel) for shape in (first, *records)],
        out_shape=[first, *records],
        **_compilation(kernel),
    )(*leaves, stages, later, steps, cotangent, limits)
    on_parts = _on_parts(parts, stages, *jax.tree.unflatten(record_def, found))
    # Times and limits are data: nothing is learnt of them.
    return on_parts, on_first, jnp.zeros_like(steps), jnp.zeros_like(limits)


_shoot.defvjp(_remember, _back)


def _record(size: int, kernel: _Kernel, steps: Array) -> jax.ShapeDtypeStruct:
    """One column of numbers for each step, stage and window."""
    return jax.ShapeDtypeStruct((size, len(steps), len(_KEPT), steps.shape[1]), steps.dtype)


def _sizes(parts: _Parts) -> tuple[dict[str, int], dict[str, int]]:
    """What `pull` keeps: how many numbers enter a product, where nobody else keeps them, and how many come out."""
    n = len(parts.potentials)
    width, core_width = len(parts.slopes), len(parts.cores[0][1])
    entered = {
        "poisson_generators": _SMALLEST,
        "friction_generators": _SMALLEST,
        "poisson": core_width,
        "energy": width,
    }
    entered |= {f"back{i}": width for i in range(1, n)} | {f"potentials{i}": width for i in range(1, n)}
    entered |= {f"cores{i}": core_width for i in range(1, n)}
    results = {name: len(getattr(parts, name)) for name in ("poisson_generators", "friction_generators")}
    results |= {"poisson": len(parts.poisson[1]), "friction": len(parts.friction[1])}
    results |= {"energy": _SMALLEST, "entropy": _SMALLEST, "slopes": width}
    results |= {f"back{i}": width for i in range(1, n)} | {f"potentials{i}": width for i in range(n)}
    return entered, results | {f"cores{i}": core_width for i in range(n)}


def _on_parts(parts: _Parts, stages: Array, entered: dict[str, Array], slopes: dict[str, Array]) -> _Parts:
    """The derivatives by the weights: products of what entered with the derivatives by what came out, summed."""

    entered = entered | {"potentials0": stages, "cores0": stages}
    entered |= {"friction": entered["poisson"], "entropy": entered["energy"]}

    def product(left: Array, right: Array) -> Array:
        # Step by step first: a single sum over all would be one long row of additions on one processor.
        by_step = jnp.einsum("mksw,nksw->ksmn", left, right, precision=jax.lax.Precision.HIGHEST)
        return by_step.sum(axis=(0, 1))

    def total(name: str) -> Array:
        return slopes[name].sum(axis=(1, 2, 3))

    def weight(name: str) -> Array:
        return product(slopes[name], entered[name])

    def layers(name: str, n: int) -> list[tuple[Array, Array]]:
        return [(weight(f"{name}{i}"), total(f"{name}{i}")) for i in range(n)]

    potentials = layers("potentials", len(parts.potentials))
    for i in range(1, len(potentials)):
        there, bias = potentials[i]
        potentials[i] = (there + product(entered[f"back{i}"], slopes[f"back{i}"]), bias)
    return _Parts(
        potentials=tuple(potentials),
        slopes=total("slopes"),
        energy=weight("energy"),
        entropy=weight("entropy"),
        cores=tuple(layers("cores", len(parts.cores))),
        poisson=(weight("poisson"), total("poisson")),
        friction=(weight("friction"), total("friction")),
        poisson_generators=weight("poisson_generators"),
        friction_generators=weight("friction_generators"),
    )


def _inside(x: Array, low: Array, high: Array) -> Array:
    return (x > low) & (x < high)


def _all_inside(x: Array, low: Array, high: Array) -> Array:
    # As a sum of numbers: the compiler for GPUs has no reduction of truth values.
    return (~_inside(x, low, high)).astype(x.dtype).sum(axis=0, keepdims=True) == 0


def _kept(stage: Any, dtype: Any) -> Array:
    values = [jnp.asarray(value, dtype) for value in _KEPT]
    return jnp.where(stage == 0, values[0], jnp.where(stage == 1, values[1], values[2]))


def _whole(array: Array) -> pl.BlockSpec:
    return pl.BlockSpec(array.shape, lambda i: (0,) * array.ndim)


def _columns(array: Any, kernel: _Kernel) -> pl.BlockSpec:
    """A block of windows, the last axis."""
    return pl.BlockSpec((*array.shape[:-1], kernel.block), lambda i: (*(0,) * (array.ndim - 1), i))


def _compilation(kernel: _Kernel) -> dict[str, Any]:
    if kernel.interpret:
        return {"interpret": True}
    return {"compiler_params": triton.CompilerParams(num_warps=_WARPS, num_stages=1)}
