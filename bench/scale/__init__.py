"""Many clusters in one environment, many replicas in one run. Figures in build/bench/scale.json."""
