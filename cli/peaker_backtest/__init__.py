"""What Peaker would have done over a load of the past. May use peaker.domain and knows no AWS."""
