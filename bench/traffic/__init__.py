"""Joins, retirements and faults under real reads: `python -m bench.traffic`. May use lab and the `peaker` command."""
