"""This room turns restored volumes into a replica that follows its source, and stops it again.

Starts and stops the server; imports health, database and what is below.
"""
