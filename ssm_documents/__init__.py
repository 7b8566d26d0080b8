"""SSM Command documents and the model that checks them."""
