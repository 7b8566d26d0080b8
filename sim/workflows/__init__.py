"""The deployed workflows on virtual time: the interpreter, Step Functions' service, and functions in flight.

Knows nothing of Peaker but its expanded workflows and its handlers.
"""
