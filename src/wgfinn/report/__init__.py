"""The HTML report of a learnt model: one file that works offline.

`open_source` finds the model and its data, `report_data` computes every number, `write_page` writes the page. What
does not live here: anything that trains, and the checks themselves (`evaluate`).
"""

from wgfinn.report.numbers import MAX_RUNS, ReportData, report_data
from wgfinn.report.page import render, write_page
from wgfinn.report.sources import Source, open_source

__all__ = [
    "MAX_RUNS",
    "ReportData",
    "Source",
    "open_source",
    "render",
    "report_data",
    "write_page",
]
