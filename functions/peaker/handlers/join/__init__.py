"""Entry points of the steps by which it joins; each names its use case in `peaker.usecases.join`.

A handler wires one use case to its input model. It holds no branch.
"""
