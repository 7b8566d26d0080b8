"""Plans against what comes of them: runs of simulated clusters through the deployed workflows, in virtual time.

What a cluster is like (`truth`), how AWS and its hosts behave (`laws`, `aws`, `hosts`, `engine`), the world that is
made of it (`world`), what is done in it (`runs`) and how far the plans are off (`errors`). No law here is the product's
formula.
"""
