"""What filesystems stand on: read on the donor, judged and brought up on the replica.

Reads devices through mdadm, LVM and the kernel's /sys; changes arrays and volume groups only in `bring_up`. Imports
`machine` and `blocks`.
"""
