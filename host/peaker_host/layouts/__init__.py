"""This room reads the layers below filesystems on the donor, and judges and assembles them on the replica.

Reads devices through mdadm, LVM and the kernel's /sys; changes arrays and volume groups only in `bring_up`. Imports
`machine` and `blocks`.
"""
