# Two targets valued from one policy's log. One is too far away: refused, exit code 2.
cje analyze --logged logged.jsonl --report report.html  # exit code 2
