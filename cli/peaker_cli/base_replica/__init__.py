"""`peaker prepare-base` and `register-base`: the two commands that change something, on one base replica."""
