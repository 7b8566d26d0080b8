"""One module per Lambda function, in the room of its use case; its entry point is `handler`.

A handler holds no branch. It may import everything below it and is imported by nothing.
"""
