"""Entry points of the steps by which it leaves; each names its use case in `peaker.usecases.leave`.

A handler wires one use case to its input model. It holds no branch.
"""
