"""What a run folder says about itself, and one sentence for everything that may be wrong with it."""

import json
from dataclasses import replace

import pytest
from reports_for_tests import some_data, some_model, some_source

from wgfinn._errors import ArtefactError, InputError
from wgfinn.artefact import save_model
from wgfinn.data import DataSpec, Trajectories, save
from wgfinn.fitting import FitSpec, hold_out, write_settings
from wgfinn.report import open_source

DATA = some_data()
MODEL = some_model(DATA)
RECORD = {"step": 5, "members": [{"name": "seed 0", "loss": 1.0, "best_loss": 1.0}]}


@pytest.fixture
def folder(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    save(DATA, tmp_path / "data.npz")
    save_model(MODEL, run / "model.wgfinn")
    write_settings(run, FitSpec(), DATA, str(tmp_path / "data.npz"))
    return run


def test_the_data_of_the_fit(folder, tmp_path):
    source = open_source(folder)
    assert source.trajectories.digest() == DATA.digest()
    assert source.data == tmp_path / "data.npz"
    assert source.is_training_data
    assert source.records == ()


def test_other_data(folder, tmp_path):
    other = some_data(runs=2)
    save(other, tmp_path / "other.npz")
    source = open_source(folder, tmp_path / "other.npz")
    assert len(source.trajectories) == 2
    assert not source.is_training_data


def test_columns_are_read_as_in_the_fit(tmp_path):
    """The page's own command works: what the fit left out is left out again, and the data are recognised."""
    path, other = tmp_path / "data.csv", tmp_path / "other.csv"
    save(DATA, path)
    rows = path.read_text().splitlines()
    path.write_text("\n".join([rows[0] + ",note", *(row + ",ok" for row in rows[1:])]))
    other.write_text(path.read_text().replace(",note", ",remark"))
    settings = MODEL.manifest.settings | {"data": {"ignore": ["note"]}}
    model = tmp_path / "model.wgfinn"
    save_model(replace(MODEL, manifest=MODEL.manifest.model_copy(update={"settings": settings})), model)
    assert open_source(model, path).is_training_data
    assert open_source(model, other).trajectories.names == DATA.names
    told = DataSpec(ignore=("remark",), states=("S", "p", "q"))
    assert open_source(model, other, told).trajectories.names == DATA.names
    with pytest.raises(InputError, match="column 'remark', row 2: expected a finite number"):
        open_source(model, other, DataSpec(time="time"))


def test_runs_held_out_are_those_of_the_fit():
    data = some_data(runs=12)
    source = some_source(data, some_model(data))
    _, judged = hold_out(data, 0.1)
    assert source.held_out == judged.run_names != ()
    assert some_source(some_data(runs=11), some_model(data)).held_out == ()
    weak = some_model(data).manifest
    weak = replace(some_model(data), manifest=weak.model_copy(update={"settings": weak.settings | {"method": "weak"}}))
    assert some_source(data, weak).held_out == ()


def test_a_bare_model_file(folder, tmp_path):
    model = folder / "model.wgfinn"
    assert open_source(model, tmp_path / "data.npz").model.names == DATA.names
    with pytest.raises(InputError, match=r"a model file does not know where its data lie\. Name the data: wgfinn rep"):
        open_source(model)


def test_lost_data(folder, tmp_path):
    (tmp_path / "data.npz").unlink()
    with pytest.raises(InputError, match=r"was fitted to .*data.npz, but there is no such file now\. Name the data"):
        open_source(folder)


def test_changed_data(folder, tmp_path):
    save(some_data(noise=0.02), tmp_path / "data.npz")
    with pytest.raises(InputError, match=r"was fitted to .*data.npz, but that file has changed since\. Name the data"):
        open_source(folder)


def test_data_that_were_never_in_a_file(folder):
    write_settings(folder, FitSpec(), DATA, None)
    with pytest.raises(InputError, match=r"settings.toml: does not say where the data lie\. Name the data"):
        open_source(folder)


def test_lost_settings(folder):
    (folder / "settings.toml").unlink()
    with pytest.raises(InputError, match=r"settings.toml, which says where the data lie, is missing\. Name the data"):
        open_source(folder)


@pytest.mark.parametrize("text", ["[data", "[fit]\n", "data = 3\n", "[data]\nsource = 'x'\n"])
def test_damaged_settings(folder, text):
    (folder / "settings.toml").write_text(text)
    with pytest.raises(ArtefactError, match=r"settings.toml: damaged"):
        open_source(folder)


def test_other_states(folder, tmp_path):
    save(Trajectories.from_arrays(DATA.runs[0].x, DATA.runs[0].t, names=["q", "v", "S"]), tmp_path / "other.npz")
    with pytest.raises(InputError, match=r"other.npz: its states are q, v, S, but the model's are q, p, S"):
        open_source(folder, tmp_path / "other.npz")


def test_no_model(tmp_path):
    with pytest.raises(ArtefactError, match=r"model.wgfinn: no such model file"):
        open_source(tmp_path)


def test_records_are_whole_lines(folder):
    """A process killed while it wrote leaves a part of a line."""
    (folder / "metrics.jsonl").write_text(json.dumps(RECORD) + "\n" + '{"step": 6, "mem')
    assert open_source(folder).records == (RECORD,)


@pytest.mark.parametrize("line", ["nonsense", "3", "{}", '{"step": 5}', '{"step": 5, "members": [{"name": "a"}]}'])
def test_damaged_records(folder, line):
    (folder / "metrics.jsonl").write_text(json.dumps(RECORD) + "\n" + line + "\n")
    with pytest.raises(ArtefactError, match=r"metrics.jsonl: line 2 is not a training record\. Remove that line"):
        open_source(folder)
