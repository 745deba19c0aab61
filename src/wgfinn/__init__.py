"""wgfinn: learn thermodynamically consistent equations of motion from noisy trajectories."""
