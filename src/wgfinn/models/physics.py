r"""From what a user says is known to pieces of a field, and whether they fit together.

The structure stays exact whatever is known. A learnt Poisson operator annihilates $\nabla S$ and a learnt friction
$\nabla E$ by construction, known potentials or not. A known operator annihilates what it does: beside it the potential
must be known too (and is checked), or, if the operator is the same at all states, is learnt as a function of the
kernel's coordinates alone.
"""

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from wgfinn._errors import InputError
from wgfinn._types import Array, Float, Matrix, Scalar, State
from wgfinn.data import Scales
from wgfinn.models.brackets import AbstractBracket
from wgfinn.models.known import (
    Frame,
    KnownMatrix,
    KnownOperator,
    KnownPotential,
    KnownSum,
    Physics,
    Rows,
    as_rows,
)
from wgfinn.models.potentials import AbstractPotential
from wgfinn.models.spec import CanonicalForm, MatrixForm, ModelSpec, SumForm

# Formulas of many terms cancel to about 1e-13 of their terms; a wrong one misses by far more.
TOLERANCE = 1e-9

_PROBES = 64


@dataclass(frozen=True, eq=False)
class KnownFunctions:
    """Known pieces that are Python functions of one physical state `(state,)`; they are never written to a file."""

    energy: Callable[[Array], Any] | None = None
    entropy: Callable[[Array], Any] | None = None
    poisson: Callable[[Array], Any] | None = None
    friction: Callable[[Array], Any] | None = None


PIECES = tuple(field.name for field in fields(KnownFunctions))
NO_FUNCTIONS = KnownFunctions()
_SYMBOLS = {"energy": "E", "entropy": "S", "poisson": "L", "friction": "M"}


def read_known(**pieces: Any) -> tuple[dict[str, Any], KnownFunctions]:
    """Known pieces as Python has them (None, a function, a matrix, or a form of the settings) as keys of `[model]`, and
    the functions apart."""
    given = {name: piece for name, piece in pieces.items() if piece is not None}
    functions = {name: piece for name, piece in given.items() if callable(piece)}
    return {name: _form(piece) for name, piece in given.items()}, KnownFunctions(**functions)


def _form(piece: Any) -> Any:
    if callable(piece):
        return "function"
    if isinstance(piece, str | dict):
        return piece
    try:
        return {"matrix": np.asarray(piece, np.float64).tolist()}
    except (TypeError, ValueError):
        return piece  # for the settings to refuse


def know(spec: ModelSpec, names: Sequence[str], scales: Scales, functions: KnownFunctions = NO_FUNCTIONS) -> Physics:
    """The known pieces of `spec` in the coordinates of `scales`; names are those of the states."""
    frame = Frame(tuple(scales.shift.tolist()), tuple(scales.scale.tolist()), scales.time)
    for piece in PIECES:
        _require_function(piece, getattr(spec, piece), getattr(functions, piece))
    energy = _potential("energy", spec.energy, functions.energy, names, frame)
    entropy = _potential("entropy", spec.entropy, functions.entropy, names, frame)
    poisson = _operator("poisson", spec.poisson, functions.poisson, names, frame)
    friction = _operator("friction", spec.friction, functions.friction, names, frame)
    if spec.entropy == "none":
        _require_mechanics(friction, names)
        entropy, friction = KnownSum.of((), frame), KnownMatrix.of(np.zeros((len(names), len(names))), frame)
    is_open = spec.entropy == "bath"
    if all(piece is not None for piece in (energy, poisson, friction)) and (is_open or entropy is not None):
        raise InputError("energy, entropy, Poisson operator and friction are all known: nothing is left to learn.")
    if is_open:
        # The energy moves the states by both operators.
        sizes = [_operator_size(known, frame) for known in (poisson, friction) if known is not None]
        size = 1 / max(sizes, default=1.0) if energy is None else _gradient_size(energy, frame)
        return Physics(
            energy=energy, poisson=poisson, friction=friction, energy_size=size, entropy_size=size, is_open=True
        )
    return Physics(
        energy=energy,
        entropy=entropy,
        poisson=poisson,
        friction=friction,
        energy_kernel=None if energy is not None else _kernel("friction", "energy", friction),
        entropy_kernel=None if entropy is not None else _kernel("poisson", "entropy", poisson),
        # Beside a known operator, a learnt potential has the size that makes their product of order one.
        energy_size=_gradient_size(energy, frame) if energy is not None else 1 / _operator_size(poisson, frame),
        entropy_size=_gradient_size(entropy, frame) if entropy is not None else 1 / _operator_size(friction, frame),
    )


def _require_mechanics(friction: AbstractBracket | None, names: Sequence[str]) -> None:
    if friction is not None:
        raise InputError("entropy = 'none' means that nothing rubs: leave the friction out, or learn an entropy.")
    if len(names) == 1:
        raise InputError(f"entropy = 'none': what conserves an energy cannot move in one state, {names[0]!r}.")


def _require_function(piece: str, form: Any, function: Callable | None) -> None:
    if form == "function" and function is None:
        raise InputError(
            f"{piece} = 'function': the {piece} of this model is a Python function, which no file holds. Give it in "
            f"Python: WGFINN({piece}=...) to learn, WGFINN.load(path, {piece}=...) to read the model."
        )
    if form != "function" and function is not None:
        raise InputError(f"{piece} was given as a function, but this model has {piece} = {form!r}; leave it out.")


def _potential(
    piece: str, form: Any, function: Callable | None, names: Sequence[str], frame: Frame
) -> AbstractPotential | None:
    if function is not None:
        _require_value(piece, function, len(names), ())
        return KnownPotential(_opaque(function), frame)
    if isinstance(form, SumForm):
        return KnownSum.of(_indices(f"{piece} = {{sum = ...}}", form.sum, names), frame)
    return None


def _operator(
    piece: str, form: Any, function: Callable | None, names: Sequence[str], frame: Frame
) -> AbstractBracket | None:
    if function is not None:
        _require_value(piece, function, len(names), (len(names), len(names)))
        return KnownOperator(_opaque(function), frame)
    if isinstance(form, CanonicalForm):
        places = _indices(f"{piece} = {{canonical = ...}}", [name for pair in form.canonical for name in pair], names)
        matrix = np.zeros((len(names), len(names)))
        matrix[places[0::2], places[1::2]] = 1
        return KnownMatrix.of(matrix - matrix.T, frame)
    if isinstance(form, MatrixForm):
        return KnownMatrix.of(_matrix(piece, form.matrix, len(names)), frame)
    return None


def _opaque(function: Callable) -> Callable:
    """The same function, compared by identity: callable objects may hold arrays, which have no hash."""
    return lambda x: function(x)


def _require_value(piece: str, function: Callable, n_states: int, shape: tuple[int, ...]) -> None:
    """Whether `function` can be traced, and gives a real array of the shape it should."""
    try:
        made = jax.eval_shape(lambda x: jnp.asarray(function(x)), jax.ShapeDtypeStruct((n_states,), jnp.float32))
    except Exception as error:
        first = str(error).strip().split("\n")[0]
        raise InputError(
            f"the given {piece} cannot be evaluated at a state of shape ({n_states},): {type(error).__name__}: {first} "
            "Write it with jax.numpy as a function of one state."
        ) from error
    if made.shape != shape or not jnp.issubdtype(made.dtype, jnp.floating):
        expected = f"a real matrix of shape {shape}" if shape else "a real number"
        raise InputError(
            f"the given {piece} must be {expected} at a state of shape ({n_states},), "
            f"but is {made.dtype}{list(made.shape)}."
        )


def _indices(place: str, wanted: Sequence[str], names: Sequence[str]) -> tuple[int, ...]:
    for k, name in enumerate(wanted):
        if name not in names:
            nearest = max(names, key=lambda known: _likeness(name, known))
            raise InputError(
                f"{place}: there is no state {name!r}; did you mean {nearest!r}? The states are {', '.join(names)}."
            )
        if name in wanted[:k]:
            raise InputError(f"{place}: the state {name!r} is named twice.")
    return tuple(names.index(name) for name in wanted)


def _likeness(a: str, b: str) -> float:
    return difflib.SequenceMatcher(None, a.casefold(), b.casefold()).ratio()


def _matrix(piece: str, rows: Rows, n_states: int) -> np.ndarray:
    if {len(rows), *map(len, rows)} != {n_states}:
        raise InputError(
            f"{piece} = {{matrix = ...}}: there are {n_states} states, so it must have {n_states} rows of {n_states} "
            f"numbers, but has {len(rows)} rows of {', '.join(map(str, sorted(set(map(len, rows)))))}."
        )
    matrix = np.array(rows)
    sign = -1 if piece == "poisson" else 1
    wrong = np.abs(matrix - sign * matrix.T).max() / max(np.abs(matrix).max(), np.finfo(float).tiny)
    if wrong > TOLERANCE:
        kind = "skew" if piece == "poisson" else "symmetric"
        raise InputError(f"{piece} = {{matrix = ...}}: must be {kind}, but misses it by {wrong:.2g} of its size.")
    if piece == "friction":
        eigenvalues = np.linalg.eigvalsh((matrix + matrix.T) / 2)
        if eigenvalues[0] < -TOLERANCE * np.abs(eigenvalues).max():
            raise InputError(
                f"{piece} = {{matrix = ...}}: must be positive semidefinite, but has the eigenvalue "
                f"{eigenvalues[0]:.3g}: entropy would fall."
            )
    return (matrix + sign * matrix.T) / 2


def _kernel(operator: str, potential: str, known: AbstractBracket | None) -> Rows | None:
    """What a learnt potential beside a known operator may depend on, so that the operator annihilates its gradient;
    None where that is everything."""
    if known is None:
        return None
    symbols = f"{_SYMBOLS[operator]}∇{_SYMBOLS[potential]} = 0"
    if not isinstance(known, KnownMatrix):
        raise InputError(
            f"{operator} is a known function of the state, so that a learnt {potential} could not keep {symbols}: give "
            f"the {potential} as well, or leave the {operator} to be learnt."
        )
    matrix = np.array(known.rows)
    if not matrix.any():
        return None
    untouched = np.flatnonzero(~matrix.any(axis=0))
    null_space = scipy.linalg.null_space(matrix, rcond=1e-12).T
    # States that the operator does not touch are its kernel to the last bit, where they are all of it.
    kernel = np.eye(len(matrix))[untouched] if len(untouched) == len(null_space) else null_space
    if len(kernel) == 0:
        raise InputError(
            f"the known {operator} acts on all states, so that by {symbols} the {potential} could depend on none. "
            + (
                "Leave the states that hold heat or entropy out of the pairs."
                if operator == "poisson"
                else "A friction must leave a direction for the energy."
            )
        )
    return as_rows(kernel)


def _gradient_size(known: AbstractPotential, frame: Frame) -> float:
    return _usual_length(lambda z: known.gradient(z)[None], frame)


def _operator_size(known: AbstractBracket | None, frame: Frame) -> float:
    if known is None:
        return 1.0
    nothing = jnp.zeros(len(frame.scale))
    return _usual_length(lambda z: known.matrix(z, nothing), frame)


def _usual_length(rows_at: Callable[[State], Float[Array, "row state"]], frame: Frame) -> float:
    """Geometric mean of the lengths of rows at random states of the coordinates' own spread.

    From the coordinates alone, so that it is the same again when a model file is read. Rows that vanish or are not
    finite (a logarithm beyond the data) do not count.
    """
    with jax.enable_x64(True):
        probes = jnp.asarray(np.random.default_rng(0).standard_normal((_PROBES, len(frame.scale))))
        rows = np.asarray(jax.jit(jax.vmap(rows_at))(probes))
    lengths = np.sqrt((rows**2).sum(axis=-1)).ravel()
    lengths = lengths[np.isfinite(lengths) & (lengths > 0)]
    return float(np.exp(np.log(lengths).mean())) if lengths.size else 1.0


def require_consistency(
    physics: Physics, names: Sequence[str], scales: Scales, states: Float[np.ndarray, "point state"]
) -> None:
    r"""Whether known pieces are what they must be at the given physical states, to rounding.

    L skew, M symmetric positive semidefinite, $L\nabla S = 0$ and $M\nabla E = 0$ where both are known, all finite.
    Matrices are compared with their transposes in the coordinates of the training, where units do not matter.
    """
    with jax.enable_x64(True):
        found = jax.device_get(_violations(physics, jnp.asarray(scales.forward(states))))
    for name, (what, should, remedy) in _RULES.items():
        if name not in found:
            continue
        values = found[name]
        worst = int(np.argmax(np.where(np.isfinite(values), values, np.inf)))
        place = f"at a state of the data, {_described(names, states[worst])}"
        if not np.isfinite(values[worst]):
            raise InputError(f"{what} is not finite {place}. Give a formula that holds there, or mend the data.")
        if values[worst] > TOLERANCE:
            raise InputError(f"{what} {should}, but misses it by {values[worst]:.2g} of its terms {place}. {remedy}")


_ALONE = "Correct it, or leave it to be learnt."
_RULES = {
    "energy": ("the known energy's gradient", "", ""),
    "entropy": ("the known entropy's gradient", "", ""),
    "skew": ("the known Poisson operator L", "must be skew", _ALONE),
    "symmetric": ("the known friction M", "must be symmetric", _ALONE),
    "positive": ("the known friction M", "must be positive semidefinite", _ALONE),
    "poisson": (
        "L∇S of the known Poisson operator and the known entropy",
        "must be zero",
        "Correct one of them, or leave poisson to be learnt: it then annihilates the gradient of the known entropy.",
    ),
    "friction": (
        "M∇E of the known friction and the known energy",
        "must be zero",
        "Correct one of them, or leave friction to be learnt: it then annihilates the gradient of the known energy.",
    ),
}


def _described(names: Sequence[str], state: np.ndarray) -> str:
    return ", ".join(f"{name} = {value:.3g}" for name, value in zip(names, state, strict=True))


@eqx.filter_jit
def _violations(physics: Physics, states: Float[Array, "point state"]) -> dict[str, Float[Array, " point"]]:
    return jax.vmap(lambda z: _violations_at(physics, z))(states)


def _violations_at(physics: Physics, z: State) -> dict[str, Scalar]:
    """Relative to the sizes of the factors; of potentials only whether they are finite (0) or not."""
    found: dict[str, Array] = {}
    of_energy = None if physics.energy is None else physics.energy.gradient(z)
    of_entropy = None if physics.entropy is None else physics.entropy.gradient(z)
    for name, gradient in (("energy", of_energy), ("entropy", of_entropy)):
        if gradient is not None:
            found[name] = 0 * jnp.sum(gradient)
    if physics.poisson is not None:
        matrix = physics.poisson.matrix(z, z)
        found["skew"] = _ratio(_norm(matrix + matrix.T), _norm(matrix))
        if of_entropy is not None:
            found["poisson"] = _product_left(matrix, of_entropy)
    if physics.friction is not None:
        matrix = physics.friction.matrix(z, z)
        found["symmetric"] = _ratio(_norm(matrix - matrix.T), _norm(matrix))
        found["positive"] = _ratio(-jnp.linalg.eigvalsh((matrix + matrix.T) / 2)[0], _norm(matrix))
        if of_energy is not None and not physics.is_open:
            found["friction"] = _product_left(matrix, of_energy)
    return found


def _product_left(matrix: Matrix, gradient: State) -> Scalar:
    r"""What is left of a product that should vanish: $\max_i |(Mg)_i| / \sum_j |M_{ij} g_j|$.

    Row by row it does not depend on the units of the states. Rows that are rounding as a whole do not count.
    """
    product = jnp.abs(matrix @ gradient)
    terms = jnp.abs(matrix) @ jnp.abs(gradient)
    counts = product > 1e-14 * _norm(matrix) * _norm(gradient)
    return jnp.max(jnp.where(counts | ~jnp.isfinite(product), product / jnp.where(terms == 0, 1, terms), 0))


def _norm(a: Array) -> Scalar:
    return jnp.sqrt(jnp.sum(a**2))


def _ratio(value: Scalar, scale: Scalar) -> Scalar:
    return value / jnp.where(scale == 0, 1, scale)
