"""`peaker plan`, `runs` and `receipt`: one run before, during and after. May read AWS; starts plans alone."""
