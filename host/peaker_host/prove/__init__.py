"""Whether a volume is warm, what load it carries, and where its knee is.

Reads devices, never the journal. Imports warm, blocks and machine; knows no database server.
"""
