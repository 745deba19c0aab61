"""Files that appear whole or not at all."""

import stat

import pytest

from wgfinn._errors import InputError
from wgfinn.data import atomic_write


def test_creates_folder_and_leaves_nothing_else(tmp_path):
    target = tmp_path / "new" / "folder" / "file.txt"
    with atomic_write(target) as temporary:
        assert temporary.parent == target.parent
        assert temporary.suffix == ".txt"
        temporary.write_text("whole")
        assert not target.exists()
    assert target.read_text() == "whole"
    assert list(target.parent.iterdir()) == [target]


def test_failure_keeps_the_old_file(tmp_path):
    target = tmp_path / "file.txt"
    target.write_text("old")

    def write_half():
        with atomic_write(target) as temporary:
            temporary.write_text("half")
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        write_half()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_mode_is_that_of_an_ordinary_file(tmp_path):
    ordinary = tmp_path / "ordinary.txt"
    ordinary.write_text("")
    with atomic_write(str(tmp_path / "file.txt")) as temporary:
        temporary.write_text("")
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert len(modes) == 1


def test_refused_targets(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="a folder of that name exists"), atomic_write(tmp_path):
        pass
    with (
        pytest.raises(InputError, match="its folder cannot be created"),
        atomic_write(tmp_path / "file" / "below" / "x.npz"),
    ):
        pass
