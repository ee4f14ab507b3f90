"""Policy-value estimators: naive, direct, IPS, doubly robust, stacked."""
