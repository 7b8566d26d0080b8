"""`peaker init`: the environment's file, written from what the account and a replica say."""
