"""What can go wrong at the door, in words a user can act on.

An error message names the argument, key or file:column:row, says what was received and what is allowed,
and ends with what to do. The command line prints it without a traceback and exits with code 2.
"""


class WgfinnError(Exception):
    """Base of every error that is the caller's to mend."""


class InputError(WgfinnError, ValueError):
    """A file, setting, shape or value that cannot be used as given."""


class ArtefactError(WgfinnError):
    """A model file or run folder that is missing, damaged or of another version."""
