"""Off-policy estimation: importance weights and doubly robust estimates from logged log-probs.

`base` holds what every such estimator shares; each other module holds one estimator or one part.
"""
