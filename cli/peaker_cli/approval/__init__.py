"""`peaker approve` and `peaker refuse`: the answer to a run that waits for a person's yes. Read the ledger's row,
judge it, send the token back; the workflow writes down what became of it.
"""
