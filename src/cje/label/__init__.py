"""Choose rows to label, show them blind, and keep every answer: designs, store, labelling page.

The statistics are elsewhere (`cje.estimators`, `cje.inference.sequential`); nothing here estimates.
"""
