"""How good the forecast and the decisions are, on the traces in data/traces and on drawn loads.

traces: what is read, and what kind of load it is; accuracy: bands against what came; operations: decisions in a closed
loop, with the rules that a cluster gets; generated: drawn loads and what they cost; cost: time and memory;
bundle_size: of what is deployed.
"""
