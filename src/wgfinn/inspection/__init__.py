"""What can be said about data before anything is learnt from them: noise, time scales, test functions, warnings."""

from wgfinn.inspection.figure import inspection_figure
from wgfinn.inspection.findings import Finding
from wgfinn.inspection.report import Inspection, RunsReport, StateReport, StepsReport, inspect
from wgfinn.inspection.spectrum import Spectrum

__all__ = [
    "Finding",
    "Inspection",
    "RunsReport",
    "Spectrum",
    "StateReport",
    "StepsReport",
    "inspect",
    "inspection_figure",
]
