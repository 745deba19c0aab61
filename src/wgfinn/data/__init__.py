"""Measured or simulated runs: values, files, noise, splits and scales.

Here live the `Trajectories` every later stage starts from and what is done to them before learning, in plain
numpy float64. What does not: integration, known systems, test functions and anything with weights.
"""

from wgfinn.data.atomic import atomic_write
from wgfinn.data.bands import SHARE, Band, band, coverage
from wgfinn.data.files import check_writable, load, load_start_states, read, save
from wgfinn.data.formats import DataSpec, Recording
from wgfinn.data.gaps import stretches
from wgfinn.data.noise import add_noise, estimate_noise, relative_noise, state_std
from wgfinn.data.outliers import mended, part_changed
from wgfinn.data.resampling import evenly_spaced
from wgfinn.data.scales import Scales
from wgfinn.data.segments import cut, fair_length
from wgfinn.data.split import split
from wgfinn.data.trajectories import Run, Trajectories, as_trajectories
from wgfinn.data.units import amount, duration_unit, rate_unit, with_unit
from wgfinn.data.winding import Winding, winding

__all__ = [
    "SHARE",
    "Band",
    "DataSpec",
    "Recording",
    "Run",
    "Scales",
    "Trajectories",
    "Winding",
    "add_noise",
    "amount",
    "as_trajectories",
    "atomic_write",
    "band",
    "check_writable",
    "coverage",
    "cut",
    "duration_unit",
    "estimate_noise",
    "evenly_spaced",
    "fair_length",
    "load",
    "load_start_states",
    "mended",
    "part_changed",
    "rate_unit",
    "read",
    "relative_noise",
    "save",
    "split",
    "state_std",
    "stretches",
    "winding",
    "with_unit",
]
