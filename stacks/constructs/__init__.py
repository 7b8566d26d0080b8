"""The only places that make a function, a workflow, an SSM document, a rule or an operator alarm."""
