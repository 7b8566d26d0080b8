"""The scheduled check of one cluster: load and forecast, decision, published figures; weekly, what settings would cost.

Makes and removes nothing: alarms on its figures start the runs. Imports `plan` and `run`.
"""
