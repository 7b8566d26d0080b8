"""Rights of roles and people, as IAM statements: free of the CDK, so that tests run under the very same."""
