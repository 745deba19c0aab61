"""Known physics: the paper's four example systems, their data sets, and the base for a system of your own.

Here live right-hand sides, energies, entropies and brackets that are known, and the generators and test
oracles made of them. Nothing here is learnt.
"""

from wgfinn.systems.base import Progress, Source, System
from wgfinn.systems.cache import cache_folder
from wgfinn.systems.checks import check_generic
from wgfinn.systems.damped_oscillator import DampedOscillator
from wgfinn.systems.dataset import Dataset, generate
from wgfinn.systems.double_pendulum import DoublePendulum
from wgfinn.systems.gas_containers import GasContainers
from wgfinn.systems.registry import make, names
from wgfinn.systems.vlasov_poisson import VlasovPoisson

__all__ = [
    "DampedOscillator",
    "Dataset",
    "DoublePendulum",
    "GasContainers",
    "Progress",
    "Source",
    "System",
    "VlasovPoisson",
    "cache_folder",
    "check_generic",
    "generate",
    "make",
    "names",
]
