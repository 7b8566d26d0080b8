"""The only places that make a function, a workflow, a rule or an operator alarm."""
