"""Network load balancers: weights, probes, lateness. May use the data plane's endpoints."""
