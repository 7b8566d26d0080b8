"""`peaker iostat` and `knee`: a block device of this machine. May use peaker_host; knows no AWS."""
