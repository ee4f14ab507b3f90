"""The questions people ask: analyze a data set, examine a file, plan a study."""
