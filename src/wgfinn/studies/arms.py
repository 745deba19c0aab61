"""The arms of a study: what is trained beside what, and how readers know them."""

from dataclasses import dataclass
from typing import Literal

Form = Literal["weak", "strong"]


@dataclass(frozen=True)
class Arm:
    """One table of a recipe: its key there, the residual it trains on, its name and its meaning for readers."""

    key: str
    form: Form
    label: str
    meaning: str


ARMS: dict[str, Arm] = {
    arm.key: arm
    for arm in (
        Arm("weak", "weak", "WGFINN", "weak form, as printed in the paper"),
        Arm("strong", "strong", "GFINN", "strong form, as printed in the paper"),
        Arm("strong_fair", "strong", "GFINN, fair", "strong form with the weak row's optimiser and attention"),
        Arm("weak_unweighted", "weak", "WGFINN, W = I", "weak form as printed, without state weights"),
        Arm("strong_unweighted", "strong", "GFINN, W = I", "strong form as printed, without state weights"),
    )
}
"""Every arm a recipe may have, in the order of tables and legends."""
