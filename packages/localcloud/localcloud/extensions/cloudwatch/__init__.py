"""Metric points, statistics and the alarms that judge them. May send events."""
