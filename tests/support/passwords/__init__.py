"""A password that is like no other text, and hosts that hold it."""
