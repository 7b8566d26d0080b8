"""The fault campaign: every fault at every state of the workflows, in the world of `sim`, and a soak of drawn plans."""
