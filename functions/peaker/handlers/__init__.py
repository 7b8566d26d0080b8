"""One module per Lambda function; its entry point is `handler`."""
