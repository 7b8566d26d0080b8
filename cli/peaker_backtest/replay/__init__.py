"""A past load in a closed loop: Peaker's decisions on its own forecasts, rivals and other settings. Pure."""
