"""How fast an engine may read while a database is at work on its volume: what is felt there, what is decided.

Reads devices and the kernel's counters; knows no database server. Imports blocks and machine.
"""
