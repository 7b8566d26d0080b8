"""Entry points of the steps that every run has; each names its use case in `peaker.usecases.run`.

A handler wires one use case to its input model. It holds no branch.
"""
