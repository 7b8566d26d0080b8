"""The runtime surrounds a handler: settings, wiring, telemetry, the clock and the recording of steps."""
