"""Clone: empty volumes become a copy of the donor's database, by MySQL's clone plugin and without a snapshot.

Writes volumes that hold nothing but zeros or what it wrote itself.
"""
