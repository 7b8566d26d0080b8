"""Lambda calls these handlers: `steps` has an entry point for each step of a workflow; a function of a
schedule is a module.

A handler holds no branch. It may import everything below it and is imported by nothing.
"""
