"""From restored volumes to a replica that follows its source, and back to a stopped one.

Starts and stops the server; imports health, database and what is below.
"""
