"""Results as Markdown: numbers in, text out."""

import math
from collections.abc import Sequence

from wgfinn.studies.arms import ARMS
from wgfinn.studies.results import RowResult, Spread, StudyResult

_DIVERGED = "∞"


def study_table(result: StudyResult) -> str:
    """All finished rows of one system: errors of every seed, thermodynamics, cost; and weak against strong."""
    lines = [
        f"# {result.title}",
        "",
        f"Scale `{result.scale}`: {result.train_runs} runs for training, {result.test_runs} clean runs for testing, "
        f"{result.seeds} seeds.",
    ]
    if result.pending:
        lines += ["", f"Not finished yet: {', '.join(f'`{key}`' for key in result.pending)}."]
    lines += ["", "## Relative l2 errors on the clean test runs", "", *error_rows(result)]
    lines += ["", "## Errors of each state, median over the seeds", "", *_state_rows(result)]
    lines += ["", "## Training and thermodynamics", "", *_law_rows(result)]
    factors = factor_rows(result)
    if factors:
        lines += ["", "## Error of the strong form over that of the weak form", "", *factors]
    lines += ["", _NOTES]
    return "\n".join(lines) + "\n"


_NOTES = f"""{_DIVERGED}: at least one rollout diverged. Energy drift and least entropy increment are the worst over all
rollouts of a row, in units of the natural variation of E and S over the test data. Seconds are the row's share of the
program that trained it, compilation included."""


def summary_table(results: Sequence[StudyResult]) -> str:
    """The whole study: mean, median, best and worst of every row of every system, and who wins by how much."""
    lines = ["# All systems", ""]
    for result in results:
        lines += [f"## {result.title} (scale `{result.scale}`)", "", *error_rows(result), ""]
        factors = factor_rows(result)
        lines += [*factors, ""] if factors else []
    return "\n".join(lines).rstrip() + "\n"


def error_rows(result: StudyResult) -> list[str]:
    seeds = [f"seed {member.seed}" for member in result.rows[0].members] if result.rows else []
    head = ["noise", "method", "mean", "median", "best", "worst", *seeds]
    return _table(head, [_error_row(row) for row in _by_noise(result)])


def _error_row(row: RowResult) -> list[str]:
    spread = Spread.of(row)
    numbers = [spread.mean, spread.median, spread.best, spread.worst, *(member.error for member in row.members)]
    return [_percent(row.noise), ARMS[row.arm].label, *(_number(value) for value in numbers)]


def _state_rows(result: StudyResult) -> list[str]:
    states = list(result.rows[0].members[0].per_state) if result.rows else []
    rows = [
        [_percent(row.noise), ARMS[row.arm].label, *(_number(_median_of_state(row, state)) for state in states)]
        for row in _by_noise(result)
    ]
    return _table(["noise", "method", *states], rows)


def _median_of_state(row: RowResult, state: str) -> float:
    values = sorted(_or_infinite(member.per_state[state]) for member in row.members)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def _law_rows(result: StudyResult) -> list[str]:
    head = ["noise", "method", "smallest loss", "energy drift", "least entropy increment", "degeneracy", "seconds"]
    return _table(head, [_law_row(row) for row in _by_noise(result)])


def _law_row(row: RowResult) -> list[str]:
    drift = max(_or_infinite(member.energy_drift) for member in row.members)
    increments = [member.min_entropy_increment for member in row.members]
    increment = None if None in increments else min(value for value in increments if value is not None)
    degeneracy = max(
        _or_infinite(member.degeneracy[name])
        for member in row.members
        for name in ("poisson_degeneracy", "friction_degeneracy")
    )
    loss = min(_or_infinite(member.loss) for member in row.members)
    numbers = [_number(loss), _number(drift), _number(increment, f"-{_DIVERGED}"), _number(degeneracy)]
    return [_percent(row.noise), ARMS[row.arm].label, *numbers, f"{row.seconds:.1f}"]


def factor_rows(result: StudyResult) -> list[str]:
    """How many times larger the strong form's error is, by mean, median and worst seed."""
    rows = []
    for level in result.levels:
        weak = result.row("weak", level)
        for arm in ("strong", "strong_fair"):
            strong = result.row(arm, level)
            if weak is not None and strong is not None:
                rows.append([_percent(level), ARMS[arm].label, *_factors(strong, weak)])
    return _table(["noise", "against WGFINN", "mean", "median", "worst"], rows) if rows else []


def _factors(strong: RowResult, weak: RowResult) -> list[str]:
    above, below = Spread.of(strong), Spread.of(weak)
    pairs = [(above.mean, below.mean), (above.median, below.median), (above.worst, below.worst)]
    return [_factor(a, b) for a, b in pairs]


def _factor(strong: float | None, weak: float | None) -> str:
    if strong is None and weak is None:
        return "both diverge"
    if strong is None or weak is None:
        return _DIVERGED if strong is None else "0"
    return f"{strong / weak:.3g}" if weak > 0 else _DIVERGED


def _by_noise(result: StudyResult) -> list[RowResult]:
    order = list(ARMS)
    return sorted(result.rows, key=lambda row: (row.noise, order.index(row.arm)))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    line = "| " + " | ".join(head) + " |"
    rule = "|" + "---|" * len(head)
    return [line, rule, *("| " + " | ".join(row) + " |" for row in rows)]


def _percent(level: float) -> str:
    return f"{100 * level:g} %"


def _number(value: float | None, lost: str = _DIVERGED) -> str:
    return lost if value is None or math.isinf(value) else f"{value:.3g}"


def _or_infinite(value: float | None) -> float:
    return math.inf if value is None else value
