"""AWS on one Linux machine: the services that a product needs, as hard as AWS is, with real or simulated hosts."""
