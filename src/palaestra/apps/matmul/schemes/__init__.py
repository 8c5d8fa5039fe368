"""Schemes: exact factorizations of the matrix-multiplication tensor, verified, compared, archived."""
