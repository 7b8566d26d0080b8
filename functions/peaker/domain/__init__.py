"""What Peaker knows and decides. Pure: no boto3, clock, environment or network; time is an argument."""
