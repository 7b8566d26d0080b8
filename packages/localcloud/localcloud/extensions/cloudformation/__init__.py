"""Stacks from templates: order, update, rollback. Calls the other services through their API alone."""
