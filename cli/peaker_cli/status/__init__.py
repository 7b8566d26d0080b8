"""`peaker status` and `watch`: gathered, made a document, drawn. May read AWS; changes nothing."""
