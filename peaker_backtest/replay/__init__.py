"""A past load in a closed loop: Peaker's decisions, its rivals, and other settings on the same forecasts.

Pure: a load and forecasts in, courses of replicas and what they cost out.
"""
