"""How a prediction is drawn towards what past runs took.

All pure: durations and predictions are arguments. Imports nothing of the rooms around it.
"""
