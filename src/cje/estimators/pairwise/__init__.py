"""`pairwise`: win rates and a Bradley-Terry ranking from side-by-side verdicts.

What single responses are worth lives in `direct`, logged ones in `offpolicy`.
"""
