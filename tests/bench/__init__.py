"""Measures of speed and memory, as ratios: `python -m tests.bench` runs them all."""
