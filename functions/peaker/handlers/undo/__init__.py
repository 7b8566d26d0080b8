"""Entry points of the steps that clear up after a run; each names its use case in `peaker.usecases.undo`.

A handler wires one use case to its input model. It holds no branch.
"""
