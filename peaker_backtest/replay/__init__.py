"""Rivals of Peaker in the closed loop of `peaker.domain.replay`: a load in, courses of replicas and their cost out.

Pure.
"""
