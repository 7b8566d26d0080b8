"""`peaker allow-removal`: a cluster's stack goes only where no replica of Peaker's is left."""
