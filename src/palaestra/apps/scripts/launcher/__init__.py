"""Runs inside the user's own interpreter, which may have nothing of ours: only the standard library, and what the
script itself has (Gymnasium, NumPy, torch). It is found by its path and imports nothing but itself.
"""
