"""This room decides how fast an engine may read while a database works on its volume.

Reads devices and the kernel's counters; knows no database server. Imports blocks and machine.
"""
