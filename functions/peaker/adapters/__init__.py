"""The only modules that import boto3. They translate AWS's errors to the domain's, once."""
