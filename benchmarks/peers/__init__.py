"""The comparison with other trainers: one small file a peer, and what runs them in turns (see ../peers.py)."""
