"""This room holds the needs of every run: request, lease, memory, host commands, tags, receipt, tear-down.

The lowest room: it imports no other room of the use cases. The only deletions are in `tear_down`.
"""
