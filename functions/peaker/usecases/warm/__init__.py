"""The new volumes are read until they are warm, and the proof of it (I5).

Works on the new host alone, by its host commands. Imports `run` alone.
"""
