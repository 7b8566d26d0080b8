"""A past load in a closed loop: Peaker's decisions on its own forecasts, and rivals.

simulation: the loop; trials: other settings on the same forecasts; settings_proposal: the cheapest of them; rivals:
reactive scaling, static fleets, AWS's predictive scaling. Pure: a load and forecasts in, courses of replicas and their
cost out.
"""
