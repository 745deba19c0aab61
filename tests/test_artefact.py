"""The model file: every bit back, nothing executable, and words for every way in which it can be damaged."""

import io
import json
import zipfile
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from small_fits import GENERIC, NAMES, small_spec, some_runs
from wgfinn._errors import ArtefactError, InputError
from wgfinn.artefact import Model, first_loss, load_model, save_model, serve_index
from wgfinn.fitting import fit
from wgfinn.models import ConfinedBracket, RescaledField

RUNS = some_runs()
# Scales far from one and from each other, so that a forgotten factor shows.
WIDE = replace(RUNS, time_unit="s").with_states([run.x * [1e3, 1.0, 1e-2] + [5.0, 0.0, 300.0] for run in RUNS.runs])
MANIFEST = "manifest.json"
ONE = "weights/energy_potential.network.weights.0.npy"


@pytest.fixture(scope="module")
def model() -> Model:
    return fit(WIDE, small_spec(GENERIC))


@pytest.fixture
def path(model, tmp_path):
    path = tmp_path / "model.wgfinn"
    save_model(model, path)
    return path


def members_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewrite(path, **changes):
    """The same archive with other contents (None: without), and sound checksums."""
    content = members_of(path) | {name.replace("__", "/"): value for name, value in changes.items()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, value in content.items():
            if value is not None:
                archive.writestr(name, value)


def rewrite_manifest(path, **changes):
    rewrite(path, **{MANIFEST: json.dumps(json.loads(members_of(path)[MANIFEST]) | changes).encode()})


def npy(array, **options):
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


# ----------------------------------------------------------------------------------------------- save, load


def test_comes_back_bit_for_bit(model, path):
    loaded = load_model(path)
    assert loaded.manifest == model.manifest
    assert jax.tree.structure(loaded.fields) == jax.tree.structure(model.fields)
    for a, b in zip(jax.tree.leaves(loaded.fields), jax.tree.leaves(model.fields), strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype
    start, t = WIDE.runs[0].x[:2], WIDE.runs[0].t
    np.testing.assert_array_equal(loaded.simulate(start, t), model.simulate(start, t))


def test_the_same_model_gives_the_same_bytes(model, path, tmp_path):
    again = tmp_path / "again.wgfinn"
    save_model(load_model(path), again)
    assert again.read_bytes() == path.read_bytes()


def test_holds_a_manifest_and_plain_arrays_only(path):
    content = members_of(path)
    assert ONE in content
    for name, value in content.items():
        if name == MANIFEST:
            assert json.loads(value)["names"] == list(NAMES)
        else:
            assert name.endswith(".npy")
            assert np.load(io.BytesIO(value), allow_pickle=False).dtype == np.float32


def test_the_unit_of_time_comes_back_and_may_be_missing(model, path):
    assert model.manifest.time_unit == "s"
    manifest = json.loads(members_of(path)[MANIFEST])
    del manifest["time_unit"]
    rewrite(path, **{MANIFEST: json.dumps(manifest).encode()})
    assert load_model(path).manifest == model.manifest.model_copy(update={"time_unit": ""})


def test_manifest_says_where_the_model_comes_from(model):
    manifest = model.manifest
    assert manifest.data.digest == WIDE.digest()
    assert (manifest.data.runs, manifest.data.samples) == (3, 90)
    assert {"wgfinn", "python", "jax", "numpy"} <= set(manifest.versions)
    assert manifest.settings["training"]["seed"] == 0
    assert [m.seed for m in manifest.members] == [0, 1]


def test_a_failing_write_leaves_the_old_file(model, path, monkeypatch):
    before = path.read_bytes()

    def fail(*_, **__):
        raise OSError("no space left on device")

    monkeypatch.setattr(np, "save", fail)
    with pytest.raises(OSError, match="no space left"):
        save_model(model, path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


# ------------------------------------------------------------------------------------------------- damages


def refused(path, match):
    with pytest.raises(ArtefactError, match=f"{path.name}: {match}"):
        load_model(path)


def test_no_file(tmp_path):
    refused(tmp_path / "nothing.wgfinn", "no such model file")


def test_a_folder(tmp_path):
    refused(tmp_path, "not a wgfinn model file, or a damaged one")


@pytest.mark.parametrize("content", [b"", b"not a zip archive"])
def test_not_an_archive(path, content):
    path.write_bytes(content)
    refused(path, "not a wgfinn model file, or a damaged one")


@pytest.mark.parametrize("part", [0.2, 0.5, 0.99])
def test_cut_short(path, part):
    content = path.read_bytes()
    path.write_bytes(content[: int(part * len(content))])
    refused(path, "not a wgfinn model file, or a damaged one")


@pytest.mark.parametrize("name", [MANIFEST, ONE])
def test_flipped_bits(path, name):
    """In the compressed stream (zlib's complaint) or only in the numbers (the checksum's)."""
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(name)
    start = info.header_offset + 30 + len(name)
    content = bytearray(path.read_bytes())
    for place in range(start, start + info.compress_size):
        content[place] ^= 0xFF
    path.write_bytes(bytes(content))
    refused(path, "not a wgfinn model file, or a damaged one")


def test_an_array_is_missing(path):
    rewrite(path, **{ONE: None})
    refused(path, "the array 'energy_potential.network.weights.0' is missing")


@pytest.mark.parametrize(
    "array", [np.zeros((2, 5, 3), np.float32), np.zeros((2, 4, 3), np.float64), np.zeros(0, np.float32)]
)
def test_an_array_of_another_shape_or_type(path, array):
    rewrite(path, **{ONE: npy(array)})
    refused(path, r"the array 'energy_potential.network.weights.0' is float.*, but the settings beside it ask for")


def test_pickles_are_never_opened(path):
    """An array of Python objects is a pickle; reading one runs whatever its author put there."""
    rewrite(path, **{ONE: npy(np.array([print], dtype=object), allow_pickle=True)})
    refused(path, r"not a wgfinn model file, or a damaged one \(.*allow_pickle=False")


@pytest.mark.parametrize("content", [b'{"format": 1, ', b"\xff\xfe\xfa"])
def test_damaged_json(path, content):
    rewrite(path, **{MANIFEST: content})
    refused(path, "not a wgfinn model file, or a damaged one")


def test_no_manifest(path):
    rewrite(path, **{MANIFEST: None})
    refused(path, r"not a wgfinn model file.*manifest.json")


@pytest.mark.parametrize(("content", "found"), [({"format": 99}, "99"), ({}, "None"), ([1], "None")])
def test_another_format(path, content, found):
    rewrite(path, **{MANIFEST: json.dumps(content)})
    refused(path, f"model format {found}, but this version of wgfinn reads format 1")


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"names": 3}, "names: "),
        ({"surprise": 1}, "surprise: "),
        ({"dtype": "object"}, "dtype: "),
        ({"members": []}, "members: "),
        ({"served": 2}, ".*served = 2, but there are 2 members"),
        ({"scales": {"shift": [0], "scale": [1], "time": 1}}, ".*the scales are not for the 3 states q, p, S"),
        ({"scales": {}}, ".*scales need exactly the keys"),
    ],
)
def test_a_manifest_that_makes_no_sense(path, changes, match):
    rewrite_manifest(path, **changes)
    refused(path, f"manifest.json: {match}.*; the file is damaged")


def test_weights_of_another_model(path):
    manifest = json.loads(members_of(path)[MANIFEST])
    rewrite_manifest(path, model=manifest["model"] | {"width": 5})
    refused(path, "the array '.*' is float32.*, but the settings beside it ask for")


# ------------------------------------------------------------------------------------------------ the model


@pytest.mark.parametrize("index", [-1, 2])
def test_no_such_member(model, index):
    with pytest.raises(InputError, match=f"member {index} does not exist; members are numbered 0 to 1"):
        model.field(index)


def test_the_served_member_is_the_one_of_lowest_loss(model):
    x = jnp.asarray(WIDE.runs[0].x.T)
    served = int(np.argmin([m.loss for m in model.manifest.members]))
    np.testing.assert_array_equal(model.field()(x), model.field(served)(x))
    assert np.any(np.asarray(model.field(1 - served)(x)) != np.asarray(model.field(served)(x)))


@pytest.mark.parametrize(
    ("losses", "served"),
    [([3.0, 1.0, 2.0], 1), ([np.inf, 5.0], 1), ([np.nan, 5.0, 4.0], 2), ([np.nan, np.inf], 0)],
)
def test_members_that_are_not_finite_come_last(losses, served):
    assert serve_index(losses) == served


def sizes_of_factors(bracket, x, annihilated):
    """Absolute values of what a bracket is made of: its rows, a sum over $|A_i| |g|$, and its core."""
    if isinstance(bracket, ConfinedBracket):
        bracket, x = bracket.inner, bracket.box.nearest(x)
    upper = np.triu(np.abs(bracket.generators), 1)
    rows = (upper + np.swapaxes(upper, 1, 2)) @ np.abs(annihilated)
    return rows, np.abs(bracket.core(x)).reshape(len(rows), len(rows))


def rounding_bounds(field, x):
    r"""Ten machine epsilons times the sums of products of absolute factors that $L$ and $M$ consist of, entry by entry.

    A sum of n products is off by at most n/2 epsilons of the sum of their sizes. Three sums follow each other (over 3
    states, 2 rows, 2 rows), then three products with scales: ten halves, and twice that where two entries, or an entry
    and its part in a product, are compared.
    """
    inner, z = field.inner, field.inward(x)
    rows, core = sizes_of_factors(inner.reversible, z, inner.entropy_gradient(z))
    poisson = rows.T @ (core + core.T) @ rows
    rows, core = sizes_of_factors(inner.irreversible, z, inner.energy_gradient(z))
    friction = rows.T @ core @ core.T @ rows
    unit = 10 * np.finfo(np.float64).eps * np.outer(field.scale, field.scale) / field.time
    return np.asarray(unit * poisson), np.asarray(unit * friction)


@pytest.mark.parametrize("index", [0, 1])
def test_structure_is_exact_in_physical_coordinates(model, index):
    """Skew, positive semidefinite and degenerate at rounding: epsilon times the factors, whatever their sums leave.
    Scales from 1e3 to 1e-2 enter matrix and gradient, so every entry has its own bound."""
    field = model.field(index)
    assert isinstance(field, RescaledField)
    assert {leaf.dtype.name for leaf in jax.tree.leaves(field)} == {"float64"}
    for x in map(jnp.asarray, WIDE.runs[1].x[::10]):
        poisson, friction = np.asarray(field.poisson(x)), np.asarray(field.friction(x))
        of_energy, of_entropy = np.asarray(field.energy_gradient(x)), np.asarray(field.entropy_gradient(x))
        of_poisson, of_friction = rounding_bounds(field, x)
        assert min(np.abs(poisson / of_poisson).max(), np.abs(friction / of_friction).max()) > 1e10
        assert np.all(np.abs(poisson + poisson.T) <= of_poisson)
        assert np.all(np.abs(friction - friction.T) <= of_friction)
        assert np.all(np.abs(poisson @ of_entropy) <= of_poisson @ np.abs(of_entropy))
        assert np.all(np.abs(friction @ of_energy) <= of_friction @ np.abs(of_energy))
        # In units of the states, for one eigenvalue is to be compared with the whole matrix.
        units = np.outer(field.scale, field.scale)
        assert np.linalg.eigvalsh(friction / units).min() >= -np.linalg.norm(of_friction / units)
        rounding = of_poisson @ np.abs(of_energy) + of_friction @ np.abs(of_entropy)
        assert np.all(np.abs(field(x) - (poisson @ of_energy + friction @ of_entropy)) <= rounding)
        np.testing.assert_allclose(of_energy, jax.grad(field.energy)(x), rtol=1e-12)


def test_first_loss_names_trajectory_and_time():
    x = np.zeros((3, 4, 2))
    x[0, 2:, 1] = np.nan
    x[2, 1, 0] = np.inf
    assert first_loss(x) == [(0, 2), (2, 1)]
    assert first_loss(x[1:2]) == []
