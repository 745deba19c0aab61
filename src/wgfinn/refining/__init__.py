"""The second stage of a fit, and how far predictions of whole runs miss."""

from wgfinn.refining.leg import Data, Entrant, Leg, begin, lengthened, steady_window, worth_refining
from wgfinn.refining.misfit import FEW_RUNS, Misfit, best_member, coverage, misfits, resolution, signal_level, telling
from wgfinn.refining.spec import RefineSpec
from wgfinn.refining.stage import Refined, prepare, refine

__all__ = [
    "FEW_RUNS",
    "Data",
    "Entrant",
    "Leg",
    "Misfit",
    "RefineSpec",
    "Refined",
    "begin",
    "best_member",
    "coverage",
    "lengthened",
    "misfits",
    "prepare",
    "refine",
    "resolution",
    "signal_level",
    "steady_window",
    "telling",
    "worth_refining",
]
