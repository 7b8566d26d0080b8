"""Direct fill: an empty volume is written with what a snapshot holds, block by block, by the EBS direct APIs.

Writes devices that hold nothing but zeros or what it wrote itself. Imports warm, aws, blocks and machine.
"""
