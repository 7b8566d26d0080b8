"""What no role of a deployed environment may do: the calls, by rule, and what they are tried on."""
