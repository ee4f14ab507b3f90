"""`pairwise`: win rates and a Bradley-Terry ranking from side-by-side verdicts.

Values of single responses are in `direct`, of logged ones in `offpolicy`.
"""
