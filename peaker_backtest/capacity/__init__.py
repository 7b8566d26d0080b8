"""What one replica serves, from its load and how it answered: a proposal with evidence for a person, never a change.

`observations` puts load, measure and replicas on one grid; `evidence` tests; `proposal` decides; `effect` is what it
would have cost; `advice` and `chart` show it. It is not in the domain: nothing that is deployed decides by it. It reads
no AWS and no file but by `measure_input`.
"""
