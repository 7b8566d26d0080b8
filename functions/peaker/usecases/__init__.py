"""One file per workflow step: gathers through ports, decides with the domain, acts through ports."""
