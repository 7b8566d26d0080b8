"""This room proves volumes warm, and measures their load and their knee.

Reads devices, never the journal. Imports warm, blocks and machine; knows no database server.
"""
