"""The lease and ledger protocol for a model checker; imports nothing of the product."""
