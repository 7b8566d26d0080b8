"""Many clusters in one environment and in one account, many replicas in one run. Figures in build/bench/scale.json."""
