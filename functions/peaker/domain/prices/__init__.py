"""Unit prices in USD: their table, and the answers of the Price List API that it is made from.

Imports `replicas` for the volumes that are priced.
"""
