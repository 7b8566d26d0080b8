"""The demonstration: one day of a real load trace against a real MySQL cluster on the local cloud."""
