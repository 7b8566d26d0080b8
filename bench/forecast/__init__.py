"""How good the forecast and the decisions are on the recorded loads in data/traces.

traces: reads them and tells which have a rhythm; accuracy: bands against what came; operations: decisions in a closed
loop, with the rules that a cluster gets; cost: processor seconds and memory of a check; figures: what each must be.
"""
