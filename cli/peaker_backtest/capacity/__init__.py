"""What one replica serves, from its load and how it answered: a proposal with evidence for a person, never a change.

`observations` puts load, measure and replicas on one grid; `evidence` tests; `proposal` decides; `advice` says it.
Nothing that is deployed decides by it. It reads no AWS, and files by `measure_input` alone.
"""
