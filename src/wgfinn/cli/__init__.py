"""The command line: thin commands over the library, one file a group.

Input errors become one sentence on standard error and exit code 2; nothing else is caught.
"""

import sys

from wgfinn._errors import WgfinnError
from wgfinn.cli import exporting, generating, inspecting, learning, reporting, studying, using
from wgfinn.cli.app import app, messages

__all__ = ["app", "exporting", "generating", "inspecting", "learning", "main", "reporting", "studying", "using"]


def main() -> None:
    """The entry point of `wgfinn`."""
    try:
        app()
    except WgfinnError as error:
        messages.print(f"wgfinn: {error}", markup=False, highlight=False)
        sys.exit(2)
