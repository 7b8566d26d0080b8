"""The responder that load balancers and peers ask, and what it goes by.

Asks the server, answers the network; imports database and what is below.
"""
