"""`peaker scale-out`, `scale-in`, `retire`, `abort`, `pause` and `resume`: each shows what it will do, asks, acts."""
