"""The ports on AWS, in rooms by service. The only modules that import boto3.

They translate AWS's errors to the domain's, in `aws_errors`.
"""
