"""What Peaker knows and decides: runs, replicas, storage, forecasting, planning, service, report.

Pure: no boto3, clock, environment or network; time is an argument. The words that all rooms use lie beside them.
"""
