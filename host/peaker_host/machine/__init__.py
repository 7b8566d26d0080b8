"""The host itself: its programs, files, settings and block devices, and why a command failed.

Below everything: imports no other room.
"""
