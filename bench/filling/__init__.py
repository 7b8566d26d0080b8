"""A replica by direct fill beside one on lazy volumes: whole runs of `scale_out` on the local cloud's real hosts."""
