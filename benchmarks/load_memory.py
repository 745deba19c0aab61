"""Peak memory and time of `wgfinn.load`: `python benchmarks/load_memory.py --values 20000000`.

Writes the same random runs in each format, then loads each in a process of its own. The memory is what the process
holds at most beyond the start of the load, in multiples of the float64 states.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

STATES, TIMES = 5, 2000


def memory(key: str) -> int:
    """`VmRSS` is what the process holds now, `VmHWM` the most it ever held (Linux)."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[key].split()[0]) * 1024


def measure(path: str) -> dict[str, float]:
    """Import everything first by loading a tiny file, then load `path`."""
    import wgfinn

    small = Path(path).with_name(f"small{Path(path).suffix}")
    wgfinn.load(small)
    before = memory("VmRSS")
    started = time.perf_counter()
    runs = wgfinn.load(path)
    seconds = time.perf_counter() - started
    states = sum(run.x.nbytes for run in runs.runs)
    return {"seconds": seconds, "times the states": (memory("VmHWM") - before) / states}


def write(folder: Path, suffix: str, values: int) -> Path:
    import wgfinn

    rng = np.random.default_rng(0)
    t = np.linspace(0, 1, TIMES)
    for name, count in (("small", 1), ("large", max(1, values // (STATES * TIMES)))):
        wgfinn.save(
            wgfinn.Trajectories.from_arrays(rng.normal(size=(count, TIMES, STATES)), t), folder / f"{name}{suffix}"
        )
    return folder / f"large{suffix}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--values", type=int, default=20_000_000)
    parser.add_argument("--formats", nargs="+", default=[".npz", ".parquet", ".csv", ".h5", ".nc", ".mat"])
    parser.add_argument("--load", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.load is not None:
        print(json.dumps(measure(options.load)))
        return
    print("| format | file | load | peak memory, times the states |\n|---|---|---|---|")
    for suffix in options.formats:
        with tempfile.TemporaryDirectory() as folder:
            path = write(Path(folder), suffix, options.values)
            command = [sys.executable, __file__, "--load", str(path)]
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            size = path.stat().st_size / 2**20
        print(
            f"| `{suffix}` | {size:.0f} MiB | {found['seconds']:.1f} s | {found['times the states']:.2f} |", flush=True
        )


if __name__ == "__main__":
    main()
