"""`peaker doctor`: looks (gather*) are apart from what is concluded. May read AWS and hosts; changes nothing."""
