"""Prewarm methods on cold volumes: `python -m bench.prewarm`. May use localcloud's machine and peaker_host."""
