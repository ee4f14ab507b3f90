"""The columnar `Dataset`, its readers, folds, scales and simulators."""
