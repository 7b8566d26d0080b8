"""The methods by which a replica can come to be warm: what each takes, costs and does to others; and which is taken.

All pure: what is known is gathered by `usecases/plan`. Imports what the room around it imports, and its prices.
"""
