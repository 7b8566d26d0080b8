"""The workflows: sources, their expansion into the States Language, and the checks that every synth runs."""
