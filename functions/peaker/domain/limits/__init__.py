"""What AWS lets the account have in its region, and what of it is in use.

All pure. Imports readings, and nothing else of the domain.
"""
