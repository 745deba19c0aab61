"""Our training step beside compiled PyTorch's, alternating in one run.

    python benchmarks/compare_step.py --torch-python PATH [--members 1] [--rounds 3] [--variants step:tuned:cols ...]

`PATH` is a Python that has torch; this one has wgfinn. Each round times both, one after the other, in fresh processes
on an otherwise idle machine; the medians over the rounds and their ratio are printed as JSON.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def ours(members: int, steps: int) -> float:
    command = [sys.executable, HERE / "step_time.py", "--members", members, "--steps", steps, "--repeats", 5, "--json"]
    return json.loads(_output(command).splitlines()[-1])["ms_per_step"]


def theirs(python: str, members: int, steps: int, threads: int, variant: str) -> float:
    command = [python, HERE / "torch_step.py", "--members", members, "--steps", steps, "--repeats", 5]
    output = _output([*command, "--threads", threads, "--variants", variant])
    found = re.search(r"fastest: .*?([\d.]+) ms per step", output)
    if found is None:
        raise SystemExit(f"torch_step.py reported no time:\n{output}")
    return float(found[1])


def _output(command: list) -> str:
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch-python", required=True)
    parser.add_argument("--members", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--variants", nargs="+", default=["step:default:cols", "step:tuned:cols"])
    arguments = parser.parse_args()
    mine: list[float] = []
    torch: dict[str, list[float]] = {variant: [] for variant in arguments.variants}
    for _ in range(arguments.rounds):
        mine.append(ours(arguments.members, arguments.steps))
        for variant, times in torch.items():
            times.append(theirs(arguments.torch_python, arguments.members, arguments.steps, arguments.threads, variant))
    median = statistics.median(mine)
    print(json.dumps({"members": arguments.members, "wgfinn": {"median_ms": median, "rounds_ms": mine}}))
    for variant, times in torch.items():
        other = statistics.median(times)
        print(
            json.dumps({"torch": variant, "median_ms": other, "rounds_ms": times, "wgfinn_over_torch": median / other})
        )


if __name__ == "__main__":
    main()
