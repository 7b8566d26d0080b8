"""Executions on the cloud's clock, and JSONata as AWS has it. Calls services through their API."""
