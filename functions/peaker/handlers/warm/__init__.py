"""Entry points of the steps that warm it; each names its use case in `peaker.usecases.warm`.

A handler wires one use case to its input model. It holds no branch.
"""
