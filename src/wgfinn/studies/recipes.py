"""Recipes: a study as data, one TOML file a system, read and checked here and nowhere else.

A row of a recipe is a line of the paper's hyperparameter tables. What a recipe does not say has no default
that matters: the few defaults below are the paper's conventions, named in docs/paper_notes.md.
"""

import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from pydantic import Field as Key

from wgfinn._errors import InputError
from wgfinn._spec import Spec, parse
from wgfinn.losses import AttentionSpec, Weights
from wgfinn.models import ModelSpec
from wgfinn.studies.arms import ARMS, Form
from wgfinn.training import OptimiserSpec
from wgfinn.weak import TestFunctionSpec

Scale = Literal["smoke", "short", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "short", "paper")


class Row(Spec):
    """What a line of either table has: noise level, AdamW and its staircase, State-RBA."""

    noise: float = Key(ge=0, description="ρ; 0.05 is 5 % noise")
    rate: float = Key(description="LR")
    decay: float = Key(description="decay rate α: the learning rate is multiplied by it")
    decay_every: int = Key(default=1000, description="decay steps; without effect where decay = 1")
    attention_rate: float = Key(description="η* of State-RBA")
    attention_decay: float = Key(description="γ of State-RBA")
    weight_decay: float = Key(default=0.0, description="of AdamW")
    weights: Weights = Key(default="inverse_std", description="W; the paper: diag(1/σ)")

    @property
    def optimiser(self) -> OptimiserSpec:
        return OptimiserSpec(
            name="adamw", rate=self.rate, decay=self.decay, decay_every=self.decay_every, weight_decay=self.weight_decay
        )

    @property
    def attention(self) -> AttentionSpec:
        return AttentionSpec(rate=self.attention_rate, decay=self.attention_decay)


class WeakRow(Row):
    """A line of the WGFINN table: test functions ℓ/p/s. Every step sees all runs."""

    width: int = Key(description="ℓ, samples in the support")
    degree: int = Key(description="p")
    overlap: float = Key(description="s, the height at which neighbours cross")

    @property
    def test_functions(self) -> TestFunctionSpec:
        return TestFunctionSpec(width=self.width, degree=self.degree, overlap=self.overlap)

    @property
    def batch(self) -> Literal["all"]:
        return "all"


class StrongRow(Row):
    """A line of the GFINN table: pairs of neighbouring samples a step."""

    batch: int = Key(ge=1, description="pairs (y[k-1], y[k]) a step")

    @property
    def test_functions(self) -> None:
        return None


class DataSpec(Spec):
    """Which clean runs there are, which of them are for training, and the noise on those."""

    trajectories: int = Key(ge=2)
    train_fraction: float = Key(gt=0, lt=1)
    seed: int = Key(default=0, ge=0, description="of start states and split")
    noise_seed: int = Key(default=1, ge=0, description="of the noise; all levels share one draw, scaled")


class ScaleSpec(Spec):
    """How long and how large a run of the study is."""

    weak_steps: int = Key(ge=1)
    strong_steps: int = Key(ge=1)
    seeds: int = Key(default=5, ge=1)
    check_every: int = Key(default=250, ge=1, description="steps between two looks at the loss over all data")
    trajectories: int | None = Key(default=None, ge=2, description="in place of the data set's number")
    batch: int | None = Key(default=None, ge=1, description="in place of the strong rows' batch sizes")
    parameters: dict[str, Any] = Key(default={}, description="of the system, over the recipe's")
    network: dict[str, Any] = Key(default={}, description="keys of the network, over the recipe's")

    def steps(self, form: Form) -> int:
        return {"weak": self.weak_steps, "strong": self.strong_steps}[form]


class ContourSpec(Spec):
    """A plane through state space on which a learnt potential is compared with the true one."""

    of: Literal["energy", "entropy"]
    x: str
    y: str
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    fixed: dict[str, float]


class FigureSpec(Spec):
    """What the figures of this system show."""

    panels: tuple[str, ...] = Key(description="states, or registered observables")
    shown_member: Literal["smallest", "median"] = Key(default="smallest", description="by training loss")
    spotlight: float | None = Key(default=None, description="a noise level with a figure of its own")
    contours: tuple[ContourSpec, ...] = ()


class Recipe(Spec):
    """A study of one system."""

    title: str
    system: str
    parameters: dict[str, Any] = Key(default={}, description="of the system, over its defaults")
    network: ModelSpec
    dtype: Literal["float32", "float64"] = "float32"
    data: DataSpec
    scales: dict[Scale, ScaleSpec]
    figures: FigureSpec
    weak: tuple[WeakRow, ...]
    strong: tuple[StrongRow, ...]
    strong_fair: tuple[StrongRow, ...] = ()
    weak_unweighted: tuple[WeakRow, ...] = ()
    strong_unweighted: tuple[StrongRow, ...] = ()

    def rows(self, arm: str) -> tuple[WeakRow | StrongRow, ...]:
        """The table of an arm; empty where the recipe has none."""
        return getattr(self, arm)

    def network_at(self, scale: Scale, source: str = "recipe") -> ModelSpec:
        """The network of a scale."""
        changes = self.scales[scale].network
        return parse(ModelSpec, {**self.network.model_dump(), **changes}, f"{source}: scales.{scale}.network")

    @property
    def levels(self) -> tuple[float, ...]:
        """All noise levels, ascending."""
        return tuple(sorted({row.noise for arm in ARMS for row in self.rows(arm)}))


def as_scale(scale: str) -> Scale:
    """The scale of that name."""
    for known in SCALES:
        if scale == known:
            return known
    raise InputError(f"scale={scale!r} is unknown; choose one of {', '.join(SCALES)}.")


_ROW_KINDS: dict[Form, type[WeakRow] | type[StrongRow]] = {"weak": WeakRow, "strong": StrongRow}


def recipe_names() -> tuple[str, ...]:
    """The recipes that come with the package: the paper's four systems, in its order."""
    return ("gas_containers", "double_pendulum", "damped_oscillator", "vlasov_poisson")


def load_recipe(name: str) -> Recipe:
    """A recipe by the name of a system of the paper, or from a TOML file."""
    if name.endswith(".toml"):
        return _load_file(Path(name))
    if name not in recipe_names():
        raise InputError(
            f"study {name!r} is unknown; choose one of {', '.join(recipe_names())}, or give a recipe file (.toml)."
        )
    text = files("wgfinn.studies").joinpath("recipes", f"{name}.toml").read_text(encoding="utf-8")
    return parse_recipe(tomllib.loads(text), f"{name}.toml")


def _load_file(path: Path) -> Recipe:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: the recipe cannot be read ({error.strerror}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a TOML file ({error}).") from None
    return parse_recipe(content, str(path))


def parse_recipe(content: Mapping[str, Any], source: str) -> Recipe:
    """A recipe from the content of its file; an `InputError` names what is wrong in it and where."""
    # Rows first, one by one: a message then names the row and the keys a row has.
    rows = {
        key: _parse_rows(_ROW_KINDS[arm.form], content[key], f"{source}: {key}")
        for key, arm in ARMS.items()
        if key in content
    }
    recipe = parse(Recipe, {**content, **rows}, source)
    _check(recipe, source)
    return recipe


def _parse_rows(kind: type[Row], content: Any, source: str) -> tuple[Row, ...]:
    if not isinstance(content, Sequence) or not all(isinstance(row, Mapping) for row in content):
        raise InputError(f"{source} must be a list of rows, each a table of keys, but is {content!r}.")
    return tuple(parse(kind, row, f"{source}, row {i + 1}") for i, row in enumerate(content))


def _check(recipe: Recipe, source: str) -> None:
    missing = [scale for scale in SCALES if scale not in recipe.scales]
    if missing:
        raise InputError(f"{source}: scales.{missing[0]} is missing; a recipe has {', '.join(SCALES)}.")
    for arm in ARMS:
        noises = [row.noise for row in recipe.rows(arm)]
        if len(set(noises)) < len(noises):
            raise InputError(f"{source}: {arm} has two rows of one noise level {noises}; give each level once.")
    for scale in SCALES:
        recipe.network_at(scale, source)
    spotlight = recipe.figures.spotlight
    if spotlight is not None and spotlight not in recipe.levels:
        raise InputError(f"{source}: figures.spotlight = {spotlight} is none of the noise levels {recipe.levels}.")
