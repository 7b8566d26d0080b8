"""The contract is shared by functions, stacks, environments and the command: settings with their bounds,
metrics, tags, names.

Pure: pydantic and the standard library, no clock, no environment, no network, and nothing else of this repository.
"""
