"""EC2 with its volumes, snapshots, snapshot blocks (EBS direct APIs) and volume keys (KMS).

Each create is by token or describe-before-create (I10).
"""
