"""Lambda calls these handlers: `steps` has an entry point for each step of a workflow, `scheduled` for each schedule.

A handler holds no branch. It may import everything below it and is imported by nothing.
"""
