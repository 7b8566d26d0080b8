"""Measurements that can be repeated: `python -m bench.<name>` prints tables and writes build/bench/<name>.json."""
