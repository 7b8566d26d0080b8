"""The rehearsal measures on an account what a plan assumes, with resources of its own, and removes them."""
