"""Exports against the model they were made from: read back as a stranger would, at other states and batch sizes."""

import re
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest

from small_fits import GENERIC, NAMES, PLAIN, some_runs
from wgfinn import WGFINN, InputError
from wgfinn._spec import parse
from wgfinn.artefact import Manifest, MemberManifest, Model, describe_data
from wgfinn.data import Scales
from wgfinn.export import export_model
from wgfinn.models import Box, ConfinedBracket, ModelSpec, build, know
from wgfinn.training import stack

PAGE = (Path(__file__).parents[2] / "docs" / "export.md").read_text(encoding="utf-8")
RUNS = some_runs()
# Scales far from one and from each other, so that a forgotten factor shows; means of the size of the spread, as single
# precision cannot hold a small spread about a large mean.
WIDE = RUNS.with_states([run.x * [1e3, 1.0, 1e-2] + [500.0, 0.0, 0.02] for run in RUNS.runs])
STATES = WIDE.runs[1].x[::6]
KINDS = {
    "neural": GENERIC,
    "tanh": GENERIC | {"activation": "tanh"},
    "softplus": GENERIC | {"activation": "softplus"},
    "squareplus": GENERIC | {"activation": "squareplus"},
    "affine": GENERIC | {"entropy": "affine"},
    "not confined": GENERIC | {"confined": False},
    "known": GENERIC | {"poisson": {"canonical": [["q", "p"]]}, "friction": "neural"},
    "sum": GENERIC | {"entropy": {"sum": ["S"]}},
    "conserving": GENERIC | {"entropy": "none"},
    "conserving a known energy": GENERIC | {"entropy": "none", "energy": {"sum": ["q", "p"]}},
    "open": GENERIC | {"entropy": "bath"},
    "open with a known energy": GENERIC | {"entropy": "bath", "energy": {"sum": ["q", "p"]}},
    "matrices": GENERIC
    | {
        "poisson": {"matrix": [[0, 1, -1], [-1, 0, 2], [1, -2, 0]]},
        "friction": {"matrix": [[1, -1, 0], [-1, 2, -1], [0, -1, 1]]},
    },
}
# float32 rounds at 6e-8 and the products have a few dozen terms, some of which cancel.
TOLERANCES = {"float64": 1e-12, "float32": 1e-5}


def untrained(settings) -> Model:
    """Two members with random weights, in the coordinates of the data."""
    spec, scales = parse(ModelSpec, settings), Scales.standardise(WIDE)
    physics = know(spec, NAMES, scales)
    box = Box.everywhere(3) if spec.confined else None
    skeleton = eqx.filter_eval_shape(build, spec, 3, key=jax.random.key(0), physics=physics, box=box)
    rng = np.random.default_rng(0)
    members = [MemberManifest(name=f"seed {k}", seed=k, loss=1.0) for k in range(2)]
    manifest = Manifest(
        model=spec,
        names=NAMES,
        units=("m", "", "J/K"),
        time_unit="s",
        scales=scales.to_dict(),
        dtype="float64",
        members=tuple(members),
        served=1,
        steps_done=0,
        settings={},
        data=describe_data(WIDE),
        versions={},
    )
    fields = jax.tree.map(lambda leaf: jnp.asarray(0.6 * rng.standard_normal((2, *leaf.shape))), skeleton)
    # Brackets share one; half of the states lie outside of it, where they have not all faded.
    axes = jnp.linalg.qr(jax.random.normal(jax.random.key(3), (3, 3)))[0]
    box = stack([Box(axes, jnp.full(3, -1.0), jnp.full(3, 0.8))] * 2)
    confine = lambda node: ConfinedBracket(node.inner, box) if isinstance(node, ConfinedBracket) else node  # noqa: E731
    return Model(jax.tree.map(confine, fields, is_leaf=lambda node: isinstance(node, ConfinedBracket)), manifest)


@pytest.fixture(scope="module", params=KINDS)
def model(request) -> Model:
    return untrained(KINDS[request.param])


@pytest.fixture(scope="module")
def plain() -> Model:
    return untrained(PLAIN)


def truth(model, member=None):
    field = model.field(member)
    x = jnp.asarray(STATES)
    parts = jax.jit(
        jax.vmap(lambda s: (field(s), field.energy(s), field.entropy(s), field.poisson(s), field.friction(s)))
    )
    return dict(zip("fESLM", map(np.asarray, parts(x)), strict=True))


def assert_close(found, expected, dtype):
    """`found` are the first of those expected. Relative to the largest in each column: an entry that is small by
    cancellation has fewer correct digits."""
    expected = np.asarray(expected)
    difference = np.abs(np.asarray(found) - expected[: len(found)])
    assert (difference <= TOLERANCES[dtype] * np.abs(expected).max(axis=0)).all()


# --------------------------------------------------------------------------------------------------- numpy


def code_of_the_page():
    """The functions that the page shows, at most forty lines of code."""
    (block,) = (b for b in re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE) if "def evaluate" in b)
    functions = block.split("with np.load")[0]
    assert len([line for line in block.splitlines() if line.strip()]) <= 40
    names = {}
    exec(compile(functions, "export.md", "exec"), names)
    return names["evaluate"]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_numpy_as_the_page_says(model, dtype, tmp_path):
    export_model(model, tmp_path / "model.npz", "numpy", dtype=dtype)
    with np.load(tmp_path / "model.npz", allow_pickle=False) as file:
        arrays = dict(file)
    assert tuple(arrays["names"]) == NAMES
    assert str(arrays["time_unit"]) == "s"
    texts = ("names", "units", "time_unit", "activation")
    assert {a.dtype.name for name, a in arrays.items() if name not in texts} == {dtype}
    evaluate = code_of_the_page()
    found = [evaluate(arrays, x.astype(dtype)) for x in STATES]
    for name, expected in truth(model).items():
        values = np.stack([f[name] for f in found]).reshape(len(STATES), -1)
        expected = expected.reshape(len(STATES), -1)
        # In units of the states, so that all entries of a matrix may be compared with the largest.
        units = np.ones(1)
        if name in "LM":
            units = np.outer(arrays["scale"], arrays["scale"]).ravel()
        elif name == "f":
            units = arrays["scale"]
        size = np.abs(expected / units).max()
        assert (np.abs(values - expected) / units <= TOLERANCES[dtype] * size).all()


def test_numpy_of_a_plain_network(plain, tmp_path):
    export_model(plain, tmp_path / "model.npz", "numpy")
    with np.load(tmp_path / "model.npz") as file:
        a = dict(file)
    z = (STATES - a["shift"]) / a["scale"]
    before = z @ a["velocity.W0"].T + a["velocity.b0"]
    assert a["activation"] == "squareplus"
    velocity = (before + np.sqrt(before**2 + 4)) / 2 @ a["velocity.W1"].T + a["velocity.b1"]
    expected = np.asarray(jax.vmap(plain.field())(jnp.asarray(STATES)))
    assert_close(a["scale"] * velocity / a["time"], expected, "float64")


# ----------------------------------------------------------------------------------------------- stablehlo


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_stablehlo(model, dtype, tmp_path):
    path = tmp_path / "model.stablehlo"
    export_model(model, path, "stablehlo", dtype=dtype)
    back = jax.export.deserialize(bytearray(path.read_bytes()))
    assert back.platforms == ("cpu", "cuda", "rocm", "tpu")
    expected = truth(model)
    for n in (1, len(STATES)):
        found = back.call(jnp.asarray(STATES[:n], dtype))
        assert {v.dtype.name for v in found.values()} == {dtype}
        for name, letter in (("f", "f"), ("energy", "E"), ("entropy", "S")):
            assert_close(found[name], expected[letter], dtype)


def test_stablehlo_can_be_differentiated_once(model, tmp_path):
    export_model(model, tmp_path / "model", "stablehlo")
    back = jax.export.deserialize(bytearray((tmp_path / "model").read_bytes()))
    gradient = jax.grad(lambda x: back.call(x)["energy"].sum())(jnp.asarray(STATES))
    np.testing.assert_allclose(gradient, model.field().energy_gradient(jnp.asarray(STATES.T)).T, rtol=1e-9)


def test_stablehlo_of_a_plain_network(plain, tmp_path):
    export_model(plain, tmp_path / "model", "stablehlo")
    found = jax.export.deserialize(bytearray((tmp_path / "model").read_bytes())).call(jnp.asarray(STATES))
    assert set(found) == {"f"}
    np.testing.assert_allclose(found["f"], jax.vmap(plain.field())(jnp.asarray(STATES)), rtol=1e-9)


# ---------------------------------------------------------------------------------------------------- onnx


def session(path):
    return onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_onnx(model, dtype, tmp_path):
    path = tmp_path / "model.onnx"
    export_model(model, path, "onnx", dtype=dtype)
    runtime = session(path)
    assert runtime.get_modelmeta().custom_metadata_map["states"] == "q, p, S"
    assert runtime.get_modelmeta().custom_metadata_map["time_unit"] == "s"
    expected = truth(model)
    for n in (1, len(STATES)):
        f, energy, entropy = runtime.run(["f", "energy", "entropy"], {"x": STATES[:n].astype(dtype)})
        assert f.dtype == dtype
        for found, letter in ((f, "f"), (energy, "E"), (entropy, "S")):
            assert_close(found, expected[letter], dtype)


def test_onnx_of_a_plain_network(plain, tmp_path):
    export_model(plain, tmp_path / "model.onnx", "onnx")
    (f,) = session(tmp_path / "model.onnx").run(None, {"x": STATES.astype(np.float32)})
    assert_close(f, jax.vmap(plain.field())(jnp.asarray(STATES)), "float32")


# --------------------------------------------------------------------------------------- members, errors


def test_another_member(model, tmp_path):
    other = 1 - model.manifest.served
    export_model(model, tmp_path / "a.npz", "numpy", member=other)
    with np.load(tmp_path / "a.npz") as file:
        found = code_of_the_page()(dict(file), STATES[1])["f"]
    np.testing.assert_allclose(found, truth(model, other)["f"][1], rtol=1e-9)
    with pytest.raises(InputError, match="member 2 does not exist"):
        export_model(model, tmp_path / "b.npz", "numpy", member=2)
    assert not (tmp_path / "b.npz").exists()


def test_functions_go_into_stablehlo_alone(tmp_path):
    estimator = WGFINN(energy=lambda x: jnp.sum(x**2), settings={"model": GENERIC, "training": {"steps": 1}})
    estimator.fit(WIDE)
    for format in ("numpy", "onnx"):
        with pytest.raises(
            InputError, match="a potential of this model is a Python function, which has no arrays; export"
        ):
            estimator.export(tmp_path / "model", format=format)
    estimator.export(tmp_path / "model", format="stablehlo")
    found = jax.export.deserialize(bytearray((tmp_path / "model").read_bytes())).call(jnp.asarray(STATES))
    np.testing.assert_allclose(found["energy"], (STATES**2).sum(axis=1), rtol=1e-12)


def test_unknown_format(plain, tmp_path):
    with pytest.raises(InputError, match="format 'pickle' is unknown; choose one of numpy, stablehlo, onnx"):
        export_model(plain, tmp_path / "model", "pickle")


def test_a_failing_write(plain, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(InputError, match=r"model.npz: cannot be written \(No space left on device\)"):
        export_model(plain, tmp_path / "model.npz", "numpy")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("format", "library"), [("onnx", "onnx"), ("stablehlo", "flatbuffers")])
def test_a_missing_library(plain, format, library, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(InputError, match=rf"format {format} needs {library}, .*: pip install 'wgfinn\[export\]'"):
        export_model(plain, tmp_path / "model", format)
