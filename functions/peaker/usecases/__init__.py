"""What each step does, in rooms by a replica's life: run, plan, forecast, create, warm, join, leave, undo.

A use case gathers through ports, decides with the domain, acts through ports. Below it are only `ports` and `domain`.
"""
