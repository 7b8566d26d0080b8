"""`peaker month`: what base and peak replicas cost in a month, by the receipts. Reads AWS, changes nothing."""
