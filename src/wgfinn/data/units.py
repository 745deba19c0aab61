"""Units in words: beside a name, for a duration, for a rate. They are text and never converted."""


def with_unit(name: str, unit: str) -> str:
    """`q [m]`, or `q` alone where the unit is not known."""
    return f"{name} [{unit}]" if unit else name


def duration_unit(time_unit: str) -> str:
    """The unit of a difference of times: of `seconds since 2000-01-01`, as netCDF files say it, the seconds."""
    return time_unit.partition(" since ")[0].rstrip()


def rate_unit(time_unit: str) -> str:
    """The unit of a frequency: `1/s` for `s`, `1/(t_c/2)` for `t_c/2`."""
    unit = duration_unit(time_unit)
    return unit and (f"1/{unit}" if not set(unit) & set(" */·") else f"1/({unit})")


def amount(value: str, unit: str) -> str:
    """`0.1 s`, or `0.1` alone where the unit is not known."""
    return f"{value} {unit}" if unit else value
