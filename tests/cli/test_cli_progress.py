"""What a training says of itself where nobody can watch a bar."""

import io

from rich.console import Console

from wgfinn.cli.progress import training_bar
from wgfinn.training import Record
from wgfinn.training.loop import MemberRecord

MEMBER = MemberRecord(
    "seed 0", loss=2.0, best_loss=0.5, rate=1e-3, gradient_norm=1.0, residual=(1.0,), diverged_at=None
)


def test_lines_of_all_stages():
    console = Console(file=io.StringIO(), width=200)
    with training_bar(console, "fit", 300) as observe:
        for record in (
            Record(100, 300, 20.0, (MEMBER,)),
            Record(100, 300, 40.0, (MEMBER,), "polish", within=(50, 250)),
            Record(200, 300, 60.0, (MEMBER,), "refine"),
            Record(250, 300, 85.0, (MEMBER,), "refine"),
        ):
            observe(record)
    assert console.file.getvalue().splitlines() == [
        "fit: step 100 of 300, loss 5.000e-01",
        "fit: step 100 of 300, polishing 50 of 250, loss 5.000e-01",
        "fit: step 200 of 300, refining, loss 5.000e-01",
        "fit: step 250 of 300, refining, loss 5.000e-01, 2 steps/s, 25 s left",
    ]
