"""What every run needs whatever it does: request, lease, memory, host commands, tags, receipt, tear-down.

The lowest room: it imports no other room of the use cases. The only deletions are in `tear_down`.
"""
