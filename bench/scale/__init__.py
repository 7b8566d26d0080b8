"""How far one environment goes: many clusters. Figures in build/bench/scale.json."""
