"""What a host asks of AWS itself, with the credentials of its role: blocks of snapshots.

Imports blocks and machine.
"""
