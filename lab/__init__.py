"""Peaker's laboratory: a cluster with data on the local cloud, which demo, bench and tests share.

May use localcloud, the contract and the `peaker` command; nothing that is deployed may use the lab.
"""
