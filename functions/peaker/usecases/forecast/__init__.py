"""The scheduled check of one cluster: load and forecast, decision, published figures.

Makes and removes nothing: alarms on its figures start the runs. Imports `plan` and `run`.
"""
