"""EventBridge's rules and deliveries, and both kinds of schedules. May act as the rules' roles."""
