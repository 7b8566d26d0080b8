"""This room finds the blocks of a volume that hold data: ranges, filesystem maps, the snapshot's list, the
log's replay.

May touch devices and mounts of its own namespace; imports only the machine.
"""
