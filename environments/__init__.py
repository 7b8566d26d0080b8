"""One YAML file per environment, and the typed schema that each must satisfy."""
