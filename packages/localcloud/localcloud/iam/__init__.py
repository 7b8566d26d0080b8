"""IAM, enforced: who calls, what the call needs, and what the policies say to it.

`policy` and `decision` are pure; `reference` is AWS's Service Authorization Reference for what we know; `needs`
says what a request needs on which resources; `account` reads roles, policies and tags from moto; `gateway` stands
in front of the API. What cannot be decided is refused, and the refusal says what is not known.
"""
