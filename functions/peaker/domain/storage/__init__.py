"""Volumes: their snapshots, what of them is warm, and what iostat says about them.

Imports `replicas` for the words of the inventory, and `runs` for what a run keeps of its looks.
"""
