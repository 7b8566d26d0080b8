"""What is checked with numbers before anything is made: bandwidth, binary logs, quotas, memory.

All pure: what is known is an argument. Imports what the room around it imports, and its prices.
"""
