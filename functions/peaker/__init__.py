"""Peaker's control plane: the code behind its Lambda functions."""
