"""The database server as its own client shows it: status, channels, positions, paths, pages in memory.

Talks to the server through `mysql`; imports blocks (arithmetic of ranges) and machine.
"""
