"""Entry points of the steps of the scheduled check; each names its use case in `peaker.usecases.forecast`.

A handler wires one use case to its input model. It holds no branch.
"""
