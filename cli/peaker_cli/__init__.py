"""The `peaker` command: reads and starts the workflows, and runs the product's own decisions on a person's data."""
