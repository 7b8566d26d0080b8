"""What all runs of an account and region share, and who has how much of it when: reservations, and starts in turn.

All pure: the time is an argument. Imports what runs and their memory are made of, and nothing else of the domain.
"""
