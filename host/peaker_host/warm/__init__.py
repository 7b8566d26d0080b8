"""The prewarm: what is read in which order, by how many readers, and how far it is.

Reads devices, writes its journal; knows no database server. Imports blocks and machine.
"""
