"""Entry points of the steps before and during planning; each names its use case in `peaker.usecases.plan`.

A handler wires one use case to its input model. It holds no branch.
"""
