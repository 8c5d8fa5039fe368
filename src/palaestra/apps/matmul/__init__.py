"""Algorithms that multiply matrices with fewer multiplications: proved, kept, and searched for."""
