"""Entry points of the steps that make a replica; each names its use case in `peaker.usecases.create`.

A handler wires one use case to its input model. It holds no branch.
"""
