"""What a fit chooses from the data: entropy or none, test functions, batches, coordinates, noise levels, runs to hold
out."""

from typing import Any, Literal

import numpy as np
from jaxtyping import Float64

from wgfinn import weak
from wgfinn.data import Scales, Trajectories, Winding, estimate_noise, fair_length, state_std, winding
from wgfinn.fitting.spec import FitSpec
from wgfinn.losses import width_over_gaps
from wgfinn.models import ModelSpec
from wgfinn.weak import TestFunctionSpec

_STATES_PER_STEP = 3200
_FEW_SAMPLES = 10_000
_FEW_SAMPLES_DECAYS = (1.0, 0.3, 0.1, 0.03)
_FEWEST_TO_HOLD_OUT = 5
_SMALLEST_NOISE = 1e-3


def resolve(spec: FitSpec, trajectories: Trajectories) -> FitSpec:
    """`spec` with what depends on the data filled in."""
    chosen: dict[str, Any] = {}
    test_functions = spec.test_functions
    if spec.method != "strong" and test_functions is None:
        chosen["test_functions"] = test_functions = choose_test_functions(trajectories)
    if spec.training.batch == "auto":
        batch = choose_batch(spec.method, trajectories, test_functions)
        chosen["training"] = spec.training.model_copy(update={"batch": batch})
    if spec.model.entropy == "auto":
        chosen["model"] = spec.model.model_copy(update={"entropy": choose_entropy(spec.model, trajectories)})
    return spec.model_copy(update=chosen)


def choose_entropy(model: ModelSpec, trajectories: Trajectories) -> Literal["neural", "none", "bath"]:
    """In two states L∇S = 0 leaves nothing of L beside an entropy, and without L nothing goes round. Where the turns
    grow smaller, energy leaves for what was not measured."""
    if model.field != "generic" or model.friction != "neural":
        return "neural"
    forms: dict[Winding, Literal["neural", "none", "bath"]] = {
        "circling": "none",
        "dying down": "bath",
        "other": "neural",
    }
    return forms[winding(trajectories, estimate_noise(trajectories))]


def choose_test_functions(trajectories: Trajectories) -> TestFunctionSpec:
    """The default for a data set: as wide as its noise asks for (`weak.choice`), and wide enough for gaps in the data
    to be short against a window."""
    chosen, _ = weak.choose_test_functions(trajectories, estimate_noise(trajectories))
    shortest = min(len(run.t) for run in trajectories.runs)
    return chosen.model_copy(update={"width": max(chosen.width, min(shortest, width_over_gaps(trajectories)))})


def choose_batch(method: str, trajectories: Trajectories, test_functions: TestFunctionSpec | None = None) -> int:
    """Items a step, so that a step evaluates the field at about 3,200 states, whatever the data's size."""
    test_functions = test_functions or choose_test_functions(trajectories)
    longest = min(item_length(trajectories, test_functions.width), _STATES_PER_STEP)
    # A strong residual takes three evaluations one after another, for about twice the time.
    return _STATES_PER_STEP // 6 if method == "strong" else max(1, round(_STATES_PER_STEP / longest))


def choose_decays(spec: FitSpec, trajectories: Trajectories) -> tuple[float, ...]:
    """The weight decays that starts take in turn. Few samples leave networks free between them, and a strong decay then
    finds the simple field behind them, how strong depends on what is behind; many need none, and it would keep networks
    from learning what they show."""
    if spec.training.decays != "auto":
        return spec.training.decays
    if spec.optimiser.weight_decay > 0:
        return (spec.optimiser.weight_decay,)
    return _FEW_SAMPLES_DECAYS if sum(len(run.t) for run in trajectories.runs) <= _FEW_SAMPLES else (0.0,)


def item_length(trajectories: Trajectories, width: int) -> int:
    """Samples in an item of the weak form: a run, all of it in memory with every network's activations.

    Long runs go in segments, and so do runs among much shorter ones, which would be padded to their length.
    """
    lengths = [len(run.t) for run in trajectories.runs]
    return fair_length(lengths, shared=width - 1, at_least=4 * width, at_most=max(_STATES_PER_STEP, 4 * width))


def choose_scales(spec: FitSpec, trajectories: Trajectories) -> Scales:
    if spec.coordinates == "physical":
        return Scales.identity(trajectories.n_states)
    return Scales.standardise(trajectories)


def hold_out(trajectories: Trajectories, part: float) -> tuple[Trajectories, Trajectories | None]:
    """Runs to learn from and runs to judge by, drawn once and for all; none of the latter from fewer than five."""
    n = len(trajectories)
    count = max(1, round(part * n)) if n >= _FEWEST_TO_HOLD_OUT and part > 0 else 0
    order = np.random.default_rng(0).permutation(n)
    if count == 0:
        return trajectories, None
    return trajectories.subset(np.sort(order[count:])), trajectories.subset(np.sort(order[:count]))


def noise_levels(trajectories: Trajectories) -> Float64[np.ndarray, " state"]:
    """The noise of each state, no smaller than what a field may miss of clean data."""
    spread = state_std(trajectories)
    spread = np.where(spread > 0, spread, 1.0)
    return np.fmax(estimate_noise(trajectories), _SMALLEST_NOISE * spread)
