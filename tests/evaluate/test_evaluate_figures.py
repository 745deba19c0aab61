"""Figures are written, whatever the numbers, and drawn to the range of what is true."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from wgfinn._errors import InputError
from wgfinn.evaluate import energy_entropy_figure, training_figure, trajectory_figure

T = np.linspace(0, 4, 101)
STATES = np.stack([np.cos(T), np.sin(T), T, T**2, -T], axis=1)


@pytest.fixture
def drawn(monkeypatch) -> list[Figure]:
    """The figures that were written."""
    figures = []
    savefig = Figure.savefig

    def remember(figure, *args, **kwargs):
        figures.append(figure)
        return savefig(figure, *args, **kwargs)

    monkeypatch.setattr(Figure, "savefig", remember)
    return figures


def legend_texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def is_png(path) -> bool:
    return path.stat().st_size > 10_000 and path.read_bytes().startswith(b"\x89PNG")


def diverging() -> np.ndarray:
    x = STATES * np.exp(T)[:, None]
    x[70:80] = 1e300
    x[80], x[81:] = np.inf, np.nan
    return x


class TestTrajectoryFigure:
    @pytest.mark.parametrize("n_states", [1, 2, 4, 5])
    def test_writes(self, tmp_path, drawn, n_states):
        truth = STATES[:, :n_states]
        path = tmp_path / "new" / "run.png"
        members = [truth + 0.01 * k for k in range(4)]
        trajectory_figure(path, T, truth, {"weak": members, "strong": truth + 0.1}, noisy=truth + 0.05, title="a run")
        assert is_png(path)
        assert sum(axes.get_visible() for axes in drawn[0].axes) == n_states
        assert legend_texts(drawn[0]) == ["ground truth", "noisy data", "weak", "strong", "members"]
        weak = [line for line in drawn[0].axes[0].lines if line.get_color() == "#0072B2"]
        served, *others = sorted(weak, key=lambda line: -line.get_linewidth())
        assert len(others) == 3
        assert all(line.get_linewidth() < served.get_linewidth() for line in others)

    def test_unit_of_time(self, tmp_path, drawn):
        trajectory_figure(tmp_path / "run.png", T, STATES[:, :1], {}, time_unit="s")
        energy_entropy_figure(tmp_path / "potentials.png", T, {"weak": T}, {"weak": T}, time_unit="$\\nu$")
        trajectory_figure(tmp_path / "bare.png", T, STATES[:, :1], {})
        assert [figure.axes[0].get_xlabel() for figure in drawn] == ["time [s]", r"time [\$\nu\$]", "time"]

    def test_divergence_does_not_set_the_range(self, tmp_path, drawn):
        trajectory_figure(tmp_path / "run.png", T, STATES, {"WGFINN": STATES, "GFINN": diverging()})
        assert "GFINN (diverges)" in legend_texts(drawn[0])
        for j, axes in enumerate(drawn[0].axes[:5]):
            low, high = axes.get_ylim()
            assert high - low < 1.3 * np.ptp(STATES[:, j])
            for line in axes.lines:
                y = np.asarray(line.get_ydata())
                assert np.max(np.abs(y[np.isfinite(y)])) < 10 * np.ptp(STATES[:, j])

    def test_constant_and_vanishing_states(self, tmp_path):
        x = np.stack([np.zeros_like(T), np.full_like(T, 1e5), 1e-300 * T], axis=1)
        trajectory_figure(tmp_path / "run.png", T, x, {"model": x})
        assert is_png(tmp_path / "run.png")

    def test_awkward_names(self, tmp_path, drawn):
        """Neither formulas nor hidden: a name is text."""
        trajectory_figure(tmp_path / "run.png", T, STATES[:, :1], {"_a $": STATES[:, :1]}, names=["$x_$"], title="$ $^")
        assert len(legend_texts(drawn[0])) == 2

    @pytest.mark.parametrize("suffix", ["pdf", "svg"])
    def test_other_formats(self, tmp_path, suffix):
        trajectory_figure(tmp_path / f"run.{suffix}", T, STATES, {})
        assert (tmp_path / f"run.{suffix}").stat().st_size > 5_000

    @pytest.mark.parametrize(
        ("changes", "match"),
        [
            ({"t": T[:-1]}, r"truth must be \(100, state\), but has shape \(101, 5\)"),
            ({"t": T[:1]}, "at least 2 times"),
            ({"predictions": {"m": STATES[:, :2]}}, r"prediction 'm' must be \(101, 5\)"),
            ({"predictions": {"m": []}}, "prediction 'm' is an empty list"),
            ({"noisy": STATES[1:]}, r"noisy must be \(101, 5\)"),
            ({"names": ["a"]}, "1 names for 5 states"),
            ({"path": "run.docx"}, "suffix 'docx'; known are .*png"),
            ({"path": "run"}, "suffix ''"),
        ],
    )
    def test_refuses(self, tmp_path, changes, match):
        given = {"path": "run.png", "t": T, "truth": STATES, "predictions": {}} | changes
        given["path"] = tmp_path / given["path"]
        with pytest.raises(InputError, match=match):
            trajectory_figure(**given)
        assert list(tmp_path.iterdir()) == []


class TestEnergyEntropyFigure:
    energy = np.full_like(T, 5.0)
    entropy = 1 - np.exp(-T)

    def lines(self, figure, panel):
        return {line.get_color(): np.asarray(line.get_ydata()) for line in figure.axes[panel].lines}

    def test_calibrated(self, tmp_path, drawn):
        path = tmp_path / "potentials.png"
        energy_entropy_figure(
            path,
            T,
            {"weak": (self.energy + 0.01 * T) / 2},
            {"weak": 3 * self.entropy - 7},
            truth_energy=self.energy,
            truth_entropy=self.entropy,
            energy_calibration={"weak": (2.0, 0.0)},
        )
        assert is_png(path)
        np.testing.assert_allclose(self.lines(drawn[0], 0)["#0072B2"], self.energy + 0.01 * T, rtol=1e-12)
        np.testing.assert_allclose(self.lines(drawn[0], 1)["#0072B2"], self.entropy, atol=1e-12)

    def test_a_drift_is_not_fitted_away(self, tmp_path, drawn):
        """Along one run a least-squares scale would press any learnt energy onto the constant truth."""
        energy_entropy_figure(
            tmp_path / "p.png", T, {"weak": 1 + 0.01 * T}, {"weak": self.entropy}, truth_energy=self.energy
        )
        np.testing.assert_allclose(self.lines(drawn[0], 0)["#0072B2"], 5 + 0.01 * T, rtol=1e-12)
        assert "own units" in drawn[0].axes[0].get_ylabel()

    def test_without_truth(self, tmp_path, drawn):
        energy_entropy_figure(tmp_path / "p.png", T, {"weak": 3 + 1e-15 * T}, {"weak": 4 + self.entropy})
        assert legend_texts(drawn[0]) == ["weak"]
        np.testing.assert_allclose(self.lines(drawn[0], 1)["#0072B2"], self.entropy, atol=1e-12)
        # Rounding is not blown up to fill the panel.
        assert np.ptp(drawn[0].axes[0].get_ylim()) > 0.01

    @pytest.mark.parametrize("truth", [True, False])
    def test_divergence(self, tmp_path, drawn, truth):
        bad = diverging()[:, 0]
        given = {"truth_energy": self.energy, "truth_entropy": self.entropy} if truth else {}
        energy_entropy_figure(
            tmp_path / "p.png", T, {"weak": self.energy, "strong": bad}, {"weak": self.entropy, "strong": bad},
            **given,
        )  # fmt: skip
        assert "strong (diverges)" in legend_texts(drawn[0])
        assert np.ptp(drawn[0].axes[0].get_ylim()) < 5
        assert np.ptp(drawn[0].axes[1].get_ylim()) < 15

    def test_refuses(self, tmp_path):
        with pytest.raises(InputError, match=r"weak must be \(101,\)"):
            energy_entropy_figure(tmp_path / "p.png", T, {"weak": T[1:]}, {})


class TestTrainingFigure:
    def records(self, members: int, checks: int = 30):
        for k in range(1, checks + 1):
            losses = [{"name": f"seed {i}", "loss": (i + 1) / k, "best_loss": (i + 1) / k} for i in range(members)]
            yield {"step": 100 * k, "seconds": 1.0, "members": losses}

    @pytest.mark.parametrize("members", [1, 5, 30])
    def test_writes(self, tmp_path, drawn, members):
        training_figure(tmp_path / "loss.png", self.records(members), title="training")
        assert is_png(tmp_path / "loss.png")
        assert drawn[0].axes[0].get_yscale() == "log"
        assert any("seed 0" in text for text in legend_texts(drawn[0]))

    def test_losses_that_are_no_numbers(self, tmp_path, drawn):
        """A member that diverges, or a run in which nothing was ever finite, still gives a figure."""
        records = list(self.records(2))
        for record in records[10:]:
            record["members"][1] |= {"loss": float("nan"), "best_loss": None}
        training_figure(tmp_path / "loss.png", records)
        steps = drawn[0].axes[0].lines[2]
        assert np.sum(np.isfinite(np.asarray(steps.get_ydata()))) == 10
        nothing = [{"step": 1, "members": [{"name": "a", "loss": np.inf, "best_loss": np.inf}]}]
        training_figure(tmp_path / "nothing.png", nothing)

    def test_refuses(self, tmp_path):
        with pytest.raises(InputError, match="no training records"):
            training_figure(tmp_path / "loss.png", [{"event": "start"}])
