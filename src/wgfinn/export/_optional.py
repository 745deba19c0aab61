"""Libraries that only an export needs."""

import importlib
from types import ModuleType

from wgfinn._errors import InputError


def require(module: str, format: str) -> ModuleType:
    """The module, or the command that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InputError(
            f"format {format} needs {module}, which is not installed: pip install 'wgfinn[export]'."
        ) from None
