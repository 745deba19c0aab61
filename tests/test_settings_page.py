"""The page of settings is made from the settings, and is up to date."""

import runpy
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def test_settings_page_is_up_to_date():
    page = runpy.run_path(str(DOCS / "make_settings.py"))["page"]()
    assert (DOCS / "settings.md").read_text(encoding="utf-8") == page
