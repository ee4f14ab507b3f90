"""The seven stages: pure functions of (configuration, input rows), each with a fingerprint."""
