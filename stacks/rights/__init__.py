"""What roles and people may do, as IAM statements: free of the CDK, so that tests run under the very same."""
